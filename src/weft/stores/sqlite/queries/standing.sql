-- Where a run stands, to say why an append was refused.
select r.key,
       coalesce(
           (select (place & 4294967295) + count - 1 from segments
            where place between r.key << 32 and (r.key << 32) + 4294967295
            order by place desc limit 1),
           0),
       r.epoch, r.owner
from runs r
where r.id = ?
