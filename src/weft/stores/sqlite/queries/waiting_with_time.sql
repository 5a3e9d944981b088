-- The next waiting runs that time wakes, the earliest first.
select r.key, r.id, r.workflow, r.version, r.status, r.reason, r.chain, r.epoch, r.created_at, r.updated_at, r.owner,
       r.failures, r.dead_letters, r.finished_at, r.outcome,
       l.place & 4294967295, l.count, l.chain, l.at, s.key, s.pid, s.host, p.at, t.first, t.link
from (
    select r.key, w.at, r.created_at, r.id
    from wakes w
    cross join runs r on r.key = w.run
    where r.status = 'waiting' and w.at >= :at and (w.at, r.created_at, r.id) > (:at, :created_at, :id)
      and (:workflow is null or r.workflow = :workflow)
      and r.created_at >= :since and r.created_at < :until
    order by w.at, r.created_at, r.id
    limit :limit offset :offset
) p
cross join runs r on r.key = p.key
left join segments l on l.place = (
    select max(place) from segments where place between r.key << 32 and (r.key << 32) + 4294967295
)
left join sessions s on s.key = r.owner
left join truncations t on t.run = r.key
order by p.at, p.created_at, p.id
