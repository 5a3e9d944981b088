-- How many runs have something to do, now or later.
select count(*)
from {schema}.weft_queue q
where q.scheduled_at < 'infinity' and ($1::text is null or q.queue = $1)
