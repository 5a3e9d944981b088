-- When each segment of a run was written.
select s.place & 4294967295, s.count, s.at
from runs r join segments s on s.place between r.key << 32 and (r.key << 32) + 4294967295
where r.id = ?
order by s.place
