-- The runs at the ends of the chains of runs that continue others, which begin with these.
with recursive chain as (
    select r.id as first, r.id, r.successor from {schema}.weft_runs r where r.id = any($1::text[])
    union all
    select c.first, r.id, r.successor from chain c join {schema}.weft_runs r on r.id = c.successor
)
select first, coalesce(successor, id) from chain c
where successor is null or not exists (select from {schema}.weft_runs r where r.id = c.successor)
