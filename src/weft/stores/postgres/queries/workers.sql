-- The workers that are alive, oldest first, each with how many runs it holds.
select w.worker, w.name, w.state, w.wanted, w.active, w.concurrency, extract(epoch from w.started_at)::double precision,
       (select count(*) from {schema}.weft_queue q where q.owner = w.key),
       extract(epoch from w.expires_at - statement_timestamp())::double precision, w.serves
from {schema}.weft_workers w
where w.worker <> '' and w.ended_at is null and w.expires_at > statement_timestamp()
order by w.key
