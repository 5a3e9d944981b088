-- The newest jobs, or one.
select j.id, j.created_at, j.look_at, j.body, j.revision
from {schema}.weft_jobs j
where $1::text is null or j.id = $1
order by j.created_at desc, j.id desc
limit $2
