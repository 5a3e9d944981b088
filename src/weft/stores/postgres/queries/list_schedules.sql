-- The rows of schedules, or of one.
select name, workflow, look_at, body, revision
from {schema}.weft_schedules
where $1::text is null or name = $1
order by name
