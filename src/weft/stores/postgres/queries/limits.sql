-- All limits, with the places of workers that have some now, and the time.
select l.kind, l.name, l.rule, l.due, l.state, coalesce(p.used, 0), coalesce(p.places, 0), coalesce(p.wanted, 0),
       coalesce(p.owners, 0), extract(epoch from clock_timestamp())::double precision
from {schema}.weft_limits l
left join lateral (
    select sum(used)::integer as used, sum(places)::integer as places, sum(wanted)::integer as wanted,
           count(*) filter (where places > 0 or wanted > 0)::integer as owners
    from {schema}.weft_limit_places p
    where l.kind = 'concurrency_limit' and p.name = l.name and p.expires_at > clock_timestamp()
) p on true
order by l.kind, l.name
