-- The first runs in one status, oldest first.
select r.key, r.id, r.workflow, r.version, r.status, r.reason,
       coalesce((l.place & 4294967295) + l.count - 1, 0), coalesce(l.chain, r.chain), r.epoch,
       r.created_at, max(r.updated_at, coalesce(l.at, r.updated_at)), 'process ' || s.pid || ' on ' || s.host
from runs r
left join segments l on l.place = (
    select max(place) from segments where place between r.key << 32 and (r.key << 32) + 4294967295
)
left join sessions s on s.key = r.owner
where r.status = :status
  and (:workflow is null or r.workflow = :workflow)
order by r.created_at, r.id
limit :limit
