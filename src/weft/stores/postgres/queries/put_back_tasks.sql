-- Offer steps again that this worker has claimed and does not run to their end.
with ordered as materialized (
    select t.key
    from unnest($1::bigint[], $2::integer[]) as g (key, fence)
    join {schema}.weft_tasks t on t.key = g.key and t.fence = g.fence and t.state = 'claimed'
    order by t.run, t.runnable
    for update of t
), back as (
    update {schema}.weft_tasks t
    set state = 'waiting', worker = null, changed_at = clock_timestamp()
    from ordered o
    where t.key = o.key
    returning t.queue
), told as (
    select pg_notify('{tasks}', b.queue) from (select distinct queue from back) b
)
select (select count(*) from back), (select count(*) from told)
