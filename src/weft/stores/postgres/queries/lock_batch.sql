-- Lock the runs of a batch that takes several statements, and their rows in the queue, in the order of ADR 40.
with runs as materialized (
    select r.key from {schema}.weft_runs r where r.id = any($1::text[]) order by r.id for no key update
)
select q.run
from {schema}.weft_queue q
where q.run = any(array(select r.key from runs r))
order by q.run
for update
