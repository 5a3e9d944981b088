-- The jobs that are due, the time, and when the next of the others is due.
with clock as (
    select extract(epoch from statement_timestamp())::double precision as now
), due as (
    select j.id, j.created_at, j.look_at, j.body, j.revision
    from clock c
    join {schema}.weft_jobs j on j.look_at <= c.now and j.look_at < 'infinity'
    order by j.look_at
    limit $1
)
select c.now, (
    select min(j.look_at) from {schema}.weft_jobs j where j.look_at > c.now and j.look_at < 'infinity'
), d.*
from clock c
left join due d on true
order by d.look_at
