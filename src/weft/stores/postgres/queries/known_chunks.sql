-- Where chunks are that may be stored already: their places, and their offsets.
select g.number, c.start
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) with ordinality
    as g (run, stream, execution, place, number)
join {schema}.weft_runs r on r.id = g.run
join {schema}.weft_chunks c
    on c.run = r.key and c.stream = g.stream and c.execution = g.execution and c.place = g.place
