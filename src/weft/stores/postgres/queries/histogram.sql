-- How many runs were created in each period of $2 seconds since $1, by status.
select floor((r.created_at - $1::double precision) / $2::double precision)::bigint, r.status, count(*)
from {schema}.weft_runs r
where r.created_at >= $1 and ($3::text is null or r.workflow = $3)
group by 1, 2
