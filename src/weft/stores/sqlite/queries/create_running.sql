-- A new run of which there is no more to say than that it is running, unless its id is taken: as create.sql, with less
-- to bind.  Nearly all new runs are of this kind.
insert into runs (key, id, workflow, version, status, reason, chain, epoch, created_at, updated_at, owner,
                  failures, dead_letters, finished_at, outcome, unique_key)
select v.column1, v.column2, v.column3, v.column4, 'running', '', v.column5, 1, v.column6, v.column6, v.column7,
       0, 0, null, x'', null
from (values (?, ?, ?, ?, ?, ?, ?)) as v
where true
on conflict (id) do nothing
