-- The unfinished runs that have these unique keys of workflows, by place.
select g.place, r.id
from unnest($1::text[], $2::text[]) with ordinality as g (workflow, unique_key, place)
join {schema}.weft_runs r on r.workflow = g.workflow and r.unique_key = g.unique_key
where r.unique_key is not null and r.status not in ('completed', 'failed', 'cancelled')
