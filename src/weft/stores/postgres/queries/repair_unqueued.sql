-- For `weft doctor --repair`: put runs that have not finished back into their queue.
with entered as (
    insert into {schema}.weft_queue (run, owner, scheduled_at, wake, queue, priority, program)
    select r.key, null,
           case when r.status = 'running' or i.count > 0 then extract(epoch from statement_timestamp())
                when r.status = 'waiting' then coalesce(r.wake_at, 'infinity') else 'infinity' end,
           i.count, r.queue, r.priority, case when r.status = 'parked' then 1 else {program} end
    from {schema}.weft_runs r
    cross join lateral (select count(*)::integer as count from {schema}.weft_inbox i where i.run = r.key) i
    where r.key = any($1::bigint[]) and r.status in ('running', 'waiting', 'idle', 'parked')
    on conflict (run) do nothing
    returning run
), told as (
    select pg_notify('{channel}', '') from entered limit 1
)
select (select count(*) from entered), (select count(*) from told)
