-- Large values of steps, by run and hash.
select v.run, v.hash, v.body
from unnest($1::text[], $2::bytea[]) as g (run, hash)
join {schema}.weft_task_values v on v.run = g.run and v.hash = g.hash
