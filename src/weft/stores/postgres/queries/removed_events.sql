-- Remove some of what stands before the first event of a truncated run; returns how many segments.
with gone as (
    delete from {schema}.weft_events e
    using {schema}.weft_runs r
    where r.id = $1 and e.run = r.key and e.first = any(array(
        select b.first from {schema}.weft_events b where b.run = r.key and b.first < r.first order by b.first limit $2
    ))
    returning 1
)
select count(*) from gone
