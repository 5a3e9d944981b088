-- The segments of a run that hold the events from one number to another; a row without a segment says that it exists.
select e.first, e.count, e.body
from {schema}.weft_runs r
left join {schema}.weft_events e
    on e.run = r.key and e.first <= $3::bigint and e.first + e.count > $2::bigint and e.first >= r.first
    and e.first >= coalesce((
        select max(b.first) from {schema}.weft_events b where b.run = r.key and b.first <= $2::bigint
    ), 0)
where r.id = $1
order by e.first
