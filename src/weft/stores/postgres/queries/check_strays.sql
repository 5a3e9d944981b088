-- For `weft doctor`: rows of other tables whose run does not exist, by table, and what names their run.
select 'weft_queue', 'key', count(*)
from {schema}.weft_queue s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_events', 'key', count(*)
from {schema}.weft_events s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_facts', 'key', count(*)
from {schema}.weft_facts s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_inbox', 'key', count(*)
from {schema}.weft_inbox s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_snapshots', 'key', count(*)
from {schema}.weft_snapshots s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_streams', 'key', count(*)
from {schema}.weft_streams s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_chunks', 'key', count(*)
from {schema}.weft_chunks s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_progress', 'key', count(*)
from {schema}.weft_progress s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_deadlines', 'key', count(*)
from {schema}.weft_deadlines s
where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_tasks', 'id', count(*)
from {schema}.weft_tasks s
where not exists (select from {schema}.weft_runs r where r.id = s.run)
union all
select 'weft_task_values', 'id', count(*)
from {schema}.weft_task_values s
where not exists (select from {schema}.weft_runs r where r.id = s.run)
