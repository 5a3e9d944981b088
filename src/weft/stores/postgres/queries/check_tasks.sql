-- Of the steps $2 that the worker $1 runs, by the claims $3, those that are not wanted any more.  Steps that it has
-- claimed without knowing, since the answer was lost, are offered again.
with mine as materialized (
    select * from unnest($2::bigint[], $3::integer[]) as m (key, fence)
), ordered as materialized (
    select t.key
    from {schema}.weft_tasks t
    where t.worker = $1::bigint and t.state = 'claimed'
      and not exists (select from mine m where m.key = t.key and m.fence = t.fence)
    order by t.run, t.runnable
    for update
), back as (
    update {schema}.weft_tasks t
    set state = 'waiting', worker = null, changed_at = clock_timestamp()
    from ordered o
    where t.key = o.key
    returning t.queue
), told as (
    select pg_notify('{tasks}', b.queue) from (select distinct queue from back) b
)
select m.key, (select count(*) from told)
from mine m
left join {schema}.weft_tasks t on t.key = m.key and t.fence = m.fence and t.state = 'claimed'
where t.key is null or exists (
    select from {schema}.weft_runs r where r.id = t.run and r.status in ('completed', 'failed', 'cancelled')
)
