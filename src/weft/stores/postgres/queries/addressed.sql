-- Idle runs that have messages and no living owner, in the order of their ids.
select r.id
from {schema}.weft_queue q
join {schema}.weft_runs r on r.key = q.run
left join {schema}.weft_workers w on w.key = q.owner
where q.wake > 0 and r.status = 'idle' and {free} and r.id collate "C" > $1::text
order by r.id collate "C"
limit $2
