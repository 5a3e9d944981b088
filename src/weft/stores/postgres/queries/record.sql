-- A part of other statements: runs, each with the name of its owner if that is alive, whether its last owner died, and
-- which process its owner is: on the same machine a death can be seen before the lease has expired.
select r.key, r.id, r.workflow, r.version, r.status, r.reason, r.failures, r.dead_letters, r.outcome, r.head, r.chain,
       r.epoch, r.created_at, r.updated_at, r.finished_at, r.wake_at, r.first,
       case when w.ended_at is null and w.expires_at > statement_timestamp() then w.name end as owner,
       coalesce(w.ended_at is null and w.expires_at <= statement_timestamp(), false) as owner_died,
       w.machine, w.pid, w.born
from {schema}.weft_runs r
left join {schema}.weft_queue q on q.run = r.key
left join {schema}.weft_workers w on w.key = q.owner
