-- Idle runs that have messages and belong to no session.  A dead session is no row any more.
select r.id
from mail a
join runs r on r.key = a.run
left join sessions s on s.key = r.owner
where r.status = 'idle' and s.key is null and r.id > :after
order by r.id
limit :limit
