-- The runs whose deadline is in danger or past, the earliest deadline first.
select r.id, r.workflow, r.status, d.deadline, d.danger_at, r.owner is not null
from deadlines d
join runs r on r.key = d.run
where d.danger_at <= :now and (:run is null or r.id = :run) and r.status not in ('completed', 'failed', 'cancelled')
order by d.deadline, r.id
limit :limit
