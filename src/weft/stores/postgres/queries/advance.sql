-- Events of many runs, where head, epoch and last hash are as expected.  Returns which of them were written.
with advanced as (
    update {schema}.weft_runs r
    set head = r.head + g.count, chain = g.chain, updated_at = g.at
    from unnest(
        $1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[], $6::bytea[], $7::bytea[],
        $8::double precision[]
    ) with ordinality as g (run, expected, epoch, count, previous, chain, body, at, place)
    where r.id = g.run and r.head = g.expected and r.epoch = g.epoch and (g.previous is null or r.chain = g.previous)
    returning r.key, g.expected, g.count, g.at, g.chain, g.body, g.place
), added as (
    insert into {schema}.weft_events (run, first, at, count, chain, body)
    select key, expected + 1, at, count, chain, body from advanced
)
select coalesce(array_agg(place), array[]::bigint[]), array[]::bigint[] from advanced
