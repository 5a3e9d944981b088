-- The session that a run names: its token, unless it was closed or removed, and whether it is known to have died.
select s.token, exists (select 1 from deaths d where d.session = r.owner)
from runs r
left join sessions s on s.key = r.owner
where r.id = ? and r.owner is not null
