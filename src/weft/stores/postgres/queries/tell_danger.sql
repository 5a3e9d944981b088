-- Note that it is told, at the time $3, that the deadline $2 of the run $1 is in danger, unless it was told before.
with told as (
    update {schema}.weft_deadlines d
    set told = true, danger_at = least(d.danger_at, $3::double precision)
    from {schema}.weft_runs r
    where r.id = $1 and d.run = r.key and d.deadline = $2 and not d.told
      and r.status not in ('completed', 'failed', 'cancelled')
    returning r.key, r.id, r.workflow, r.status, d.deadline, d.danger_at
)
select t.id, t.workflow, t.status, t.deadline, t.danger_at,
       w.key is not null and w.ended_at is null and w.expires_at > statement_timestamp()
from told t
left join {schema}.weft_queue q on q.run = t.key
left join {schema}.weft_workers w on w.key = q.owner
