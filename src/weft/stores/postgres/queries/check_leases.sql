-- For `weft doctor`: owners that have neither ended nor renewed their lease in time, and still have runs.
select w.worker, w.name, extract(epoch from statement_timestamp() - w.expires_at)::double precision, count(*)
from {schema}.weft_workers w
join {schema}.weft_queue q on q.owner = w.key
where w.ended_at is null and w.expires_at <= statement_timestamp()
group by w.key
order by w.key
