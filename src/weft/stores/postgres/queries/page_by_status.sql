-- A page of runs in some statuses, newest first: a page of each, merged, so that rare ones are found without the others.
-- The values are those of `page`.
{record}
where r.key = any(array(
    select f.key
    from (select distinct s.status from unnest($1::text[]) as s (status)) s
    cross join lateral (
        select p.key, p.created_at, p.id
        from {schema}.weft_runs p
        where p.status = s.status and p.status <> 'completed' and ($2::text is null or p.workflow = $2)
          and ($3::boolean is null or (p.failures > 0) = $3) and ($4::double precision is null or p.created_at >= $4)
          and ($5::double precision is null or (p.created_at, p.id) < ($5, $6::text))
        order by p.created_at desc, p.id desc
        limit $7
    ) f
    union all
    (
        select p.key
        from {schema}.weft_runs p
        where 'completed' = any($1) and p.status = 'completed' and ($2 is null or p.workflow = $2)
          and ($3 is null or (p.failures > 0) = $3) and ($4 is null or p.created_at >= $4)
          and ($5 is null or (p.created_at, p.id) < ($5, $6))
        order by p.created_at desc, p.id desc
        limit $7
    )
))
order by r.created_at desc, r.id desc
limit $7
