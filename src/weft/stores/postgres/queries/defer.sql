-- Release runs of this owner that it cannot continue, so that they are due again after so many seconds; one that
-- has got a message since it was claimed is due now.  In the order of locks of ADR 40.
with asked as materialized (
    select q.run
    from {schema}.weft_runs r
    join {schema}.weft_queue q on q.run = r.key
    where r.id = any($1::text[]) and q.owner = $2::bigint
    order by q.run
    for update of q
)
update {schema}.weft_queue q
set owner = null,
    scheduled_at = extract(epoch from clock_timestamp()) + case when q.wake > q.seen then 0 else $3::double precision end
from asked a
where q.run = a.run and q.owner = $2
