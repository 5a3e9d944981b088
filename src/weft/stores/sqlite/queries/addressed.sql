-- Idle runs that have messages and belong to no session.  A dead session is no row any more.
select distinct r.id
from inbox i
join runs r on r.key = i.run
left join sessions s on s.key = r.owner
where r.status = 'idle' and s.key is null and r.id > :after
order by r.id
limit :limit
