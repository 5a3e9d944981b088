-- Delete runs that are locked, and all that belongs to them, unless another owner that is alive has them.
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
), tasks as (
    delete from {schema}.weft_tasks t using gone g where t.run = g.id
), task_values as (
    delete from {schema}.weft_task_values v using gone g where v.run = g.id
), queue as (
    delete from {schema}.weft_queue q using gone g where q.run = g.key
), runs as (
    delete from {schema}.weft_runs r using gone g where r.key = g.key returning r.key
)
select count(*) from runs
