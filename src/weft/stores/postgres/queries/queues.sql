-- The queues that have runs: how many wait and for how long the oldest has, how many are due later, and how many are held.
with entry as (
    select q.queue, q.scheduled_at, q.fair_key, {free} as is_free,
           q.scheduled_at <= extract(epoch from statement_timestamp()) as is_due
    from {schema}.weft_queue q
    left join {schema}.weft_workers w on w.key = q.owner
)
select queue, count(*) filter (where is_free and is_due),
       extract(epoch from statement_timestamp())::double precision - min(scheduled_at) filter (where is_free and is_due),
       count(*) filter (where is_free and not is_due and scheduled_at < 'infinity'),
       count(*) filter (where not is_free),
       count(distinct fair_key) filter (where is_free and is_due)
from entry
group by queue
order by queue
