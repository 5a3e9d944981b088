-- Let the run $2 continue the run $1, which is locked: the messages of that one are for it, it is in the same queue, and
-- it has the same unique key.
-- The row of the old run in the queue goes, unless it is owned or has work left.
with old as (
    update {schema}.weft_runs set successor = $2 where id = $1
    returning key, queue, priority, unique_key, status in ('completed', 'failed', 'cancelled') as is_finished
), new as (
    update {schema}.weft_runs r set queue = o.queue, priority = o.priority, unique_key = o.unique_key
    from old o
    where r.id = $2
    returning r.key, r.queue, r.priority
), moved as (
    update {schema}.weft_inbox i set run = n.key
    from old o, new n
    where i.run = o.key
    returning i.number
), woken as (
    update {schema}.weft_queue q
    set wake = q.wake + m.count, queue = n.queue, priority = n.priority,
        scheduled_at = case when m.count = 0 then q.scheduled_at
                            else least(q.scheduled_at, extract(epoch from statement_timestamp())) end
    from new n, (select count(*) as count from moved) m
    where q.run = n.key
), gone as (
    delete from {schema}.weft_queue q using old o where q.run = o.key and o.is_finished and q.owner is null
), kept as (
    update {schema}.weft_queue q
    set wake = q.wake - (select count(*) from moved)
    from old o
    where q.run = o.key and not (o.is_finished and q.owner is null)
)
select count(*) from moved
