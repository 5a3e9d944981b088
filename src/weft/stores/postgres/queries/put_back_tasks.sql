-- Offer steps again that this worker has claimed and does not run to their end.
with back as (
    update {schema}.weft_tasks t
    set state = 'waiting', worker = null, changed_at = clock_timestamp()
    from unnest($1::bigint[], $2::integer[]) as g (key, fence)
    where t.key = g.key and t.fence = g.fence and t.state = 'claimed'
    returning t.queue
), told as (
    select pg_notify('{tasks}', b.queue) from (select distinct queue from back) b
)
select (select count(*) from back), (select count(*) from told)
