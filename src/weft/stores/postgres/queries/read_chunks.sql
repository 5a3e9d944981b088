-- The chunks of a stream, in order, from the one that holds an offset.
select c.start, c.items, c.component, c.attempt, c.execution, c.place, c.at, c.body
from {schema}.weft_runs r
join {schema}.weft_chunks c on c.run = r.key and c.stream = $2
where r.id = $1 and c.start >= coalesce((
    select b.start
    from {schema}.weft_chunks b
    where b.run = r.key and b.stream = $2 and b.start <= $3::bigint and b.start + b.items > $3
    order by b.start desc
    limit 1
), $3)
order by c.start
limit $4
