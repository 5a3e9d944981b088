-- The messages for one run, in their order.
select m.number, r.id, m.kind, m.at, m.body
from runs r join inbox m on m.run = r.key
where r.id = :run and m.number > :after
order by m.number
limit :limit
