-- Runs in no status that there is, or of no time; a look at all of them, for the case that statuses.sql
-- or timeless.sql has found one.
select r.key, r.id, r.workflow, r.version, r.status, r.reason, r.chain, r.epoch, r.created_at, r.updated_at, r.owner,
       r.failures, r.dead_letters, r.finished_at, r.outcome,
       l.place & 4294967295, l.count, l.chain, l.at, s.key, s.pid, s.host, w.at, t.first, t.link
from runs r
left join segments l on l.place = (
    select max(place) from segments where place between r.key << 32 and (r.key << 32) + 4294967295
)
left join sessions s on s.key = r.owner
left join wakes w on w.run = r.key
left join truncations t on t.run = r.key
where r.status is null
   or r.created_at is null
   or r.status not in ('running', 'waiting', 'idle', 'parked', 'completed', 'failed', 'cancelled')
order by r.key
