-- Remove steps that no run waits for: its run has finished, or an owner has left them behind for $1 seconds.
-- Then the values that no step needs.  A row that another process has locked is left for the next time.
with ordered as materialized (
    select t.key
    from {schema}.weft_tasks t
    where exists (
        select from {schema}.weft_runs r where r.id = t.run and r.status in ('completed', 'failed', 'cancelled')
    ) or (
        t.changed_at < clock_timestamp() - $1::double precision * interval '1 second'
        and (t.state = 'done' or not exists (
            select from {schema}.weft_workers w
            where w.key = t.owner and w.ended_at is null and w.expires_at > statement_timestamp()
        ))
    )
    for update skip locked
), gone as (
    delete from {schema}.weft_tasks t using ordered o where t.key = o.key returning t.run
), needless as materialized (
    select v.run, v.hash
    from {schema}.weft_task_values v
    where v.changed_at < clock_timestamp() - $1 * interval '1 second'
      and not exists (select from {schema}.weft_tasks t where t.run = v.run)
    for update skip locked
), unused as (
    delete from {schema}.weft_task_values v using needless n where v.run = n.run and v.hash = n.hash
)
select count(*) from gone
