-- Where a run stands, who has taken it, if that has not been closed, the last link of its log, and when it was created.
select r.key, coalesce((l.place & 4294967295) + l.count - 1, 0), r.epoch, s.key, coalesce(l.chain, r.chain), r.created_at
from runs r
left join segments l on l.place = (
    select max(place) from segments where place between r.key << 32 and (r.key << 32) + 4294967295
)
left join sessions s on s.key = r.owner
where r.id = ?
