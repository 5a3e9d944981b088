-- Runs with the segments that hold what came after a position, as of one moment, and the link before a truncated log.
select l.firsts, l.counts, l.bodies, t.link, f.*
from (
{record}
    where r.id = any($1::text[])
) f
join {schema}.weft_runs t on t.key = f.key
left join lateral (
    select array_agg(e.first order by e.first) as firsts, array_agg(e.count order by e.first) as counts,
           array_agg(e.body order by e.first) as bodies
    from {schema}.weft_events e
    where e.run = f.key and e.first + e.count > $2::bigint + 1 and e.first >= f.first and e.first >= coalesce((
        select max(b.first) from {schema}.weft_events b where b.run = f.key and b.first <= $2::bigint + 1
    ), 0)
) l on true
