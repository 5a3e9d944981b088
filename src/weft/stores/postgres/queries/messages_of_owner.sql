-- The messages of all runs of an owner, in their order.
select i.number, r.id, i.kind, i.at, i.body
from {schema}.weft_queue q
join {schema}.weft_inbox i on i.run = q.run
join {schema}.weft_runs r on r.key = q.run
where q.owner = $1::bigint and q.wake > 0 and i.number > $2::bigint
order by i.number
limit $3
