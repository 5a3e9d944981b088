-- The deadlines that are in danger at a time, or that one next, and were not told; the first in danger first.
select r.id, d.deadline, d.danger_at
from deadlines d
join runs r on r.key = d.run
where not d.told and r.status not in ('completed', 'failed', 'cancelled')
order by d.danger_at, r.id
limit ?
