-- Lock some old runs that have no living owner, oldest first, before they are deleted.
select r.key
from {schema}.weft_runs r
left join {schema}.weft_queue q on q.run = r.key
left join {schema}.weft_workers w on w.key = q.owner
where r.created_at < $1 and r.updated_at < $1 and r.status = any($2::text[]) and {free}
order by r.created_at, r.id
limit $3
for update of r skip locked
