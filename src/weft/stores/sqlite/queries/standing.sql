-- Where a run stands, and who has taken it, if that has not been closed.
select r.key,
       coalesce(
           (select (place & 4294967295) + count - 1 from segments
            where place between r.key << 32 and (r.key << 32) + 4294967295
            order by place desc limit 1),
           0),
       r.epoch,
       s.key
from runs r left join sessions s on s.key = r.owner
where r.id = ?
