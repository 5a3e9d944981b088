-- The snapshot of a run; nulls if it has none.
select s.position, s.body
from {schema}.weft_runs r
left join {schema}.weft_snapshots s on s.run = r.key
where r.id = $1
