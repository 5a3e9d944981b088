-- The messages of these runs, in their order.
select i.number, r.id, i.kind, i.at, i.body
from {schema}.weft_runs r
join {schema}.weft_inbox i on i.run = r.key
where r.id = any($1::text[]) and i.number > $2::bigint
order by i.number
limit $3
