-- The next waiting runs, with failures or without, that time alone does not wake, oldest first.
select r.key, r.id, r.workflow, r.version, r.status, r.reason, r.chain, r.epoch, r.created_at, r.updated_at, r.owner,
       r.failures, r.dead_letters, r.finished_at, r.outcome,
       l.place & 4294967295, l.count, l.chain, l.at, s.key, s.pid, s.host, p.at, t.first, t.link
from (
    select r.key, null as at, r.created_at, r.id
    from runs r
    where r.status = :status and (r.failures is not 0) = :failed
      and (r.created_at, r.id) > (:created_at, :id) and r.created_at < :until
      and not exists (select 1 from wakes w where w.run = r.key)
    order by r.created_at, r.id
    limit :limit offset :offset
) p
cross join runs r on r.key = p.key
left join segments l on l.place = (
    select max(place) from segments where place between r.key << 32 and (r.key << 32) + 4294967295
)
left join sessions s on s.key = r.owner
left join truncations t on t.run = r.key
order by p.created_at, p.id
