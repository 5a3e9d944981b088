-- For `weft doctor`: runs whose row in the queue counts other messages than there are in the inbox.
select r.key, r.id, coalesce(q.wake, 0), i.count
from (select run, count(*) as count from {schema}.weft_inbox group by run) i
join {schema}.weft_runs r on r.key = i.run
left join {schema}.weft_queue q on q.run = i.run
where coalesce(q.wake, 0) <> i.count
union all
select r.key, r.id, q.wake, 0
from {schema}.weft_queue q
join {schema}.weft_runs r on r.key = q.run
where q.wake > 0 and not exists (select from {schema}.weft_inbox i where i.run = q.run)
limit $1
