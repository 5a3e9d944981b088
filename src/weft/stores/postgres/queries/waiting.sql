-- The runs that are due and have no worker, by workflow, version and queue; those that are parked wait for a person.
select r.workflow, r.version, q.queue, count(*),
       greatest(0, extract(epoch from statement_timestamp())::double precision - min(q.scheduled_at))
from {schema}.weft_queue q
join {schema}.weft_runs r on r.key = q.run
left join {schema}.weft_workers w on w.key = q.owner
where {free} and q.scheduled_at <= extract(epoch from statement_timestamp()) and r.status <> 'parked'
group by r.workflow, r.version, q.queue
order by r.workflow, r.version, q.queue
