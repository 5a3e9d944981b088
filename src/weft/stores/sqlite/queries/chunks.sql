-- The chunks of a stream, in order, from the one that holds an offset.
select c.start, c.items, c.component, c.attempt, c.execution, c.place, c.at, c.body
from runs r join chunks c on c.run = r.key
where r.id = :run and c.stream = :stream and c.start >= coalesce(
    (
        select start from chunks
        where run = r.key and stream = :stream and start <= :start and start + items > :start
        order by start desc limit 1
    ),
    :start
)
order by c.start
limit :limit
