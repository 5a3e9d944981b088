-- For `weft doctor`: runs whose row has another number of events than their log, which may begin after a snapshot.
select r.id, r.head, greatest(coalesce(e.last, 0), coalesce(s.position, 0))
from {schema}.weft_runs r
left join lateral (
    select e.first + e.count - 1 as last from {schema}.weft_events e where e.run = r.key order by e.first desc limit 1
) e on true
left join {schema}.weft_snapshots s on s.run = r.key
where r.head <> greatest(coalesce(e.last, 0), coalesce(s.position, 0))
order by r.key
limit $1
