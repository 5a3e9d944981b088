select name, workflow, look_at, body, revision
from schedules
where :name is null or name = :name
order by name
