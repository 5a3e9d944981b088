-- The messages for the runs of one session, in their order.
select m.number, r.id, m.kind, m.at, m.body
from inbox m join runs r on r.key = m.run
where r.owner = :session and m.number > :after
order by m.number
limit :limit
