-- Release runs of this owner that it cannot continue, so that they are due again after so many seconds.
with asked as (
    select r.key
    from {schema}.weft_runs r
    where r.id = any($1::text[])
)
update {schema}.weft_queue q
set owner = null, scheduled_at = extract(epoch from clock_timestamp()) + $3::double precision
from asked a
where q.run = a.key and q.owner = $2::bigint
