-- Delete runs that are locked, and all that belongs to them, unless another owner that is alive has them.  The other rows
-- that somebody else may want are locked in the order of ADR 40.
with gone as (
    select r.key, r.id
    from {schema}.weft_runs r
    left join {schema}.weft_queue q on q.run = r.key
    left join {schema}.weft_workers w on w.key = q.owner
    where r.key = any($1::bigint[]) and (q.owner = $2::bigint or {free})
), events as (
    delete from {schema}.weft_events e using gone g where e.run = g.key
), facts as (
    delete from {schema}.weft_facts f using gone g where f.run = g.key
), snapshots as (
    delete from {schema}.weft_snapshots s using gone g where s.run = g.key
), streams as (
    delete from {schema}.weft_streams s using gone g where s.run = g.key
), chunks as (
    delete from {schema}.weft_chunks c using gone g where c.run = g.key
), progress as (
    delete from {schema}.weft_progress p using gone g where p.run = g.key
), inbox as (
    delete from {schema}.weft_inbox i using gone g where i.run = g.key
), ordered as materialized (
    select q.run from {schema}.weft_queue q where q.run = any(array(select g.key from gone g)) order by q.run for update
), ordered_values as materialized (
    select v.run, v.hash
    from {schema}.weft_task_values v
    where (select count(*) from ordered) >= 0 and v.run = any(array(select g.id from gone g))
    order by v.run, v.hash
    for update
), ordered_tasks as materialized (
    select t.key
    from {schema}.weft_tasks t
    where (select count(*) from ordered_values) >= 0 and t.run = any(array(select g.id from gone g))
    order by t.run, t.runnable
    for update
), tasks as (
    delete from {schema}.weft_tasks t using ordered_tasks o where t.key = o.key
), task_values as (
    delete from {schema}.weft_task_values v using ordered_values o where v.run = o.run and v.hash = o.hash
), deadlines as (
    delete from {schema}.weft_deadlines d using gone g where d.run = g.key
), queue as (
    delete from {schema}.weft_queue q using ordered o where q.run = o.run
), runs as (
    delete from {schema}.weft_runs r using gone g where r.key = g.key returning r.key
)
select count(*) from runs
