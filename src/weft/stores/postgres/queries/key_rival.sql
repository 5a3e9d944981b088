-- The workflow and the unique key of a run, and the other unfinished run that has that key.
select r.workflow, r.unique_key, o.id
from {schema}.weft_runs r
left join {schema}.weft_runs o
    on o.workflow = r.workflow and o.unique_key = r.unique_key and o.key <> r.key
   and o.unique_key is not null and o.status not in ('completed', 'failed', 'cancelled')
where r.id = $1
