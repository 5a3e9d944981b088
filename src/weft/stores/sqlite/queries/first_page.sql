-- The first runs in one status, oldest first.
select r.key, r.id, r.workflow, r.version, r.status, r.reason, r.head, r.chain, r.epoch, r.created_at, r.updated_at,
       'process ' || s.pid || ' on ' || s.host
from runs r left join sessions s on s.key = r.owner
where r.status = :status
  and (:workflow is null or r.workflow = :workflow)
order by r.created_at, r.id
limit :limit
