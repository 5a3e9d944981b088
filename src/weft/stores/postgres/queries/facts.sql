-- The values of a run that are asked for; a row without a hash says that the run exists.
select f.hash, f.body
from {schema}.weft_runs r
left join {schema}.weft_facts f on f.run = r.key and f.hash = any($2::bytea[])
where r.id = $1
