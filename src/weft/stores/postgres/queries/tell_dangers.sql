-- Note that the deadlines in danger at the time $1 are told that were not, at most $2, and return them.
with untold as (
    select d.run
    from {schema}.weft_deadlines d
    join {schema}.weft_runs r on r.key = d.run
    where not d.told and d.danger_at <= $1::double precision and r.status not in ('completed', 'failed', 'cancelled')
    order by d.danger_at
    limit $2
    for update of d skip locked
), told as (
    update {schema}.weft_deadlines d
    set told = true
    from untold u, {schema}.weft_runs r
    where d.run = u.run and r.key = u.run
    returning r.key, r.id, r.workflow, r.status, d.deadline, d.danger_at
)
select t.id, t.workflow, t.status, t.deadline, t.danger_at,
       w.key is not null and w.ended_at is null and w.expires_at > statement_timestamp()
from told t
left join {schema}.weft_queue q on q.run = t.key
left join {schema}.weft_workers w on w.key = q.owner
order by t.deadline, t.id
