-- Where runs are, and whether each holds a segment, or has held it and begins right behind it since it was truncated: for
-- appends that were not written.
select g.place, r.head, r.epoch, r.chain, r.created_at, q.owner, exists (
    select from {schema}.weft_events e
    where e.run = r.key and e.first = g.first and e.count = g.count and e.body = g.body
) or coalesce(r.first = g.first + g.count and r.link = g.link, false)
from unnest($1::text[], $2::bigint[], $3::integer[], $4::bytea[], $5::bytea[]) with ordinality
    as g (run, first, count, body, link, place)
join {schema}.weft_runs r on r.id = g.run
left join {schema}.weft_queue q on q.run = r.key
