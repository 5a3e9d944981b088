-- Remove steps that no run waits for: its run has finished, or an owner has left them behind for $1 seconds.
-- Then the values that no step needs.
with gone as (
    delete from {schema}.weft_tasks t
    where exists (
        select from {schema}.weft_runs r where r.id = t.run and r.status in ('completed', 'failed', 'cancelled')
    ) or (
        t.changed_at < clock_timestamp() - $1::double precision * interval '1 second'
        and (t.state = 'done' or not exists (
            select from {schema}.weft_workers w
            where w.key = t.owner and w.ended_at is null and w.expires_at > statement_timestamp()
        ))
    )
    returning t.run
), unused as (
    delete from {schema}.weft_task_values v
    where v.changed_at < clock_timestamp() - $1 * interval '1 second'
      and not exists (select from {schema}.weft_tasks t where t.run = v.run)
)
select count(*) from gone
