-- Remove steps of the owner $1 that are not wanted any more, and tell the workers that run them.
with ordered as materialized (
    select t.key
    from {schema}.weft_tasks t
    where t.key = any($2::bigint[]) and t.owner = $1::bigint
    order by t.run, t.runnable
    for update
), dropped as (
    delete from {schema}.weft_tasks t using ordered o where t.key = o.key returning t.worker
), told as (
    select pg_notify(w.channel, 'dropped')
    from {schema}.weft_workers w
    where w.key in (select worker from dropped) and w.ended_at is null
)
select (select count(*) from dropped), (select count(*) from told)
