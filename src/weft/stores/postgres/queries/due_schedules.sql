-- The rows of schedules of these workflows that are due, the time, and when the next of the others is due.
with clock as (
    select extract(epoch from statement_timestamp())::double precision as now
), due as (
    select s.name, s.workflow, s.look_at, s.body, s.revision
    from clock c
    join {schema}.weft_schedules s on s.look_at <= c.now
    where s.workflow = any($1::text[])
    order by s.look_at
    limit $2
)
select c.now, (
    select min(s.look_at) from {schema}.weft_schedules s where s.look_at > c.now and s.workflow = any($1)
), d.*
from clock c
left join due d on true
