-- Chunks of streams, in their order.  The row of the stream is locked, so that offsets have no gaps.  Returns the places
-- of those whose runs exist, and their offsets, both sorted.
with given as materialized (
    select *
    from unnest(
        $1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::integer[], $7::bigint[],
        $8::double precision[], $9::bytea[]
    ) with ordinality as g (run, stream, component, attempt, execution, items, place, at, body, number)
), known as (
    select r.key, r.id
    from {schema}.weft_runs r
    where r.id in (select run from given)
    order by r.id
    for key share
), counted as (
    insert into {schema}.weft_streams as s (run, name, items)
    select k.key, g.stream, sum(g.items)
    from given g
    join known k on k.id = g.run
    group by k.key, g.stream
    order by k.key, g.stream
    on conflict (run, name) do update set items = s.items + excluded.items
    returning run, name, items
), placed as (
    select k.key, g.*,
           c.items - sum(g.items) over (partition by k.key, g.stream order by g.number desc) as start
    from given g
    join known k on k.id = g.run
    join counted c on c.run = k.key and c.name = g.stream
), added as (
    insert into {schema}.weft_chunks (run, stream, start, items, component, attempt, execution, place, at, body)
    select key, stream, start, items, component, attempt, execution, place, at, body from placed
)
select coalesce(array_agg(number order by number), array[]::bigint[]),
       coalesce(array_agg(start::bigint order by number), array[]::bigint[])
from placed
