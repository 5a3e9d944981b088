-- A run that is to be truncated, locked: where it is, the position of its snapshot, and whether a segment begins at $2.
select r.key, r.epoch, r.head, r.first, s.position, exists (
    select from {schema}.weft_events e where e.run = r.key and e.first = $2::bigint
)
from {schema}.weft_runs r
left join {schema}.weft_snapshots s on s.run = r.key
where r.id = $1
for no key update of r
