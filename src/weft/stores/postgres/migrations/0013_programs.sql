-- Of each run and step that waits, a number for its workflow and version, so that a claim reads only what its process
-- can run (docs/adr/0040): 0 if it is not known, 1 for a parked run, which is only for messages that it takes while it
-- is parked.  Of each run in the queue also how many messages there were when it was claimed.
alter table {schema}.weft_queue
    add column program integer not null default 0,
    add column seen integer not null default 0;
drop index {schema}.weft_queue_free;
drop index {schema}.weft_queue_owned;
update {schema}.weft_queue q
set seen = q.wake, program = case when r.status = 'parked' then 1 else {program} end
from {schema}.weft_runs r
where r.key = q.run;
create index weft_queue_free on {schema}.weft_queue (queue, priority, program, scheduled_at, run)
where owner is null and turn is null;
create index weft_queue_in_turn on {schema}.weft_queue (queue, priority, program, turn, run)
where owner is null and turn is not null;
create index weft_queue_owned on {schema}.weft_queue (owner, program) where owner is not null;

-- Ids of runs are compared as those of weft_runs are: else no index of one serves a join with the other.
alter table {schema}.weft_tasks
    alter column run type text collate "C",
    alter column runnable type text collate "C",
    add column program integer not null default 0;
alter table {schema}.weft_task_values alter column run type text collate "C";
update {schema}.weft_tasks r set program = {program};
drop index {schema}.weft_tasks_waiting;
create index weft_tasks_waiting on {schema}.weft_tasks (queue, program, priority desc, key) where state = 'waiting';
