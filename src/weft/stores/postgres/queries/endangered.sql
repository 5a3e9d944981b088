-- The runs whose deadline is in danger or past at the time $1, the earliest deadline first; at most $2.
select r.id, r.workflow, r.status, d.deadline, d.danger_at,
       w.key is not null and w.ended_at is null and w.expires_at > statement_timestamp()
from {schema}.weft_deadlines d
join {schema}.weft_runs r on r.key = d.run
left join {schema}.weft_queue q on q.run = d.run
left join {schema}.weft_workers w on w.key = q.owner
where d.danger_at <= $1 and r.status not in ('completed', 'failed', 'cancelled')
order by d.deadline, r.id
limit $2
