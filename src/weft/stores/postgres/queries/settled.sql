-- The runs of this owner that it has by these claims, in the epoch of the claim.
select case when r.died_head = r.head then r.died_epoch end, q.wake, r.key, r.id, r.workflow, r.version, r.status, r.reason,
       r.failures, r.dead_letters, r.outcome, r.head, r.chain, r.epoch, r.created_at, r.updated_at, r.finished_at,
       r.wake_at, r.first, $3::text as owner
from {schema}.weft_queue q
join {schema}.weft_runs r on r.key = q.run
where q.owner = $1::bigint and q.claim = any($2::bigint[])
order by q.priority desc, q.run
