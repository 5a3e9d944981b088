-- How many runs the pages have together.
select count(*)
from {schema}.weft_runs r
where ($1::text[] is null or r.status = any($1)) and ($2::text is null or r.workflow = $2)
  and ($3::boolean is null or (r.failures > 0) = $3) and ($4::double precision is null or r.created_at >= $4)
