-- For `weft doctor`: runs that have not finished and are not in the queue, so that no worker will ever have them.
select r.key, r.id
from {schema}.weft_runs r
where r.status in ('running', 'waiting', 'idle', 'parked')
  and not exists (select from {schema}.weft_queue q where q.run = r.key)
order by r.key
limit $1
