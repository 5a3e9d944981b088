-- The messages for the runs of one session, in their order.  What the mail says of a run may be older than its row.
select m.number, r.id, m.kind, m.at, m.body
from mail a
cross join runs r on r.key = a.run and r.owner = :session
cross join inbox m on m.run = a.run and m.number > :after
where a.owner = :session
order by m.number
limit :limit
