-- For `weft doctor --repair`: count the messages of runs again; a run that has some is due now.
with counted as (
    select r.key, r.queue, r.priority, {program} as program,
           (select count(*)::integer from {schema}.weft_inbox i where i.run = r.key) as messages
    from {schema}.weft_runs r
    where r.key = any($1::bigint[])
), entered as (
    insert into {schema}.weft_queue as q (run, owner, scheduled_at, wake, queue, priority, program)
    select key, null, extract(epoch from statement_timestamp()), messages, queue, priority, program from counted order by key
    on conflict (run) do update
    set wake = excluded.wake,
        scheduled_at = case when excluded.wake > 0 then least(q.scheduled_at, excluded.scheduled_at) else q.scheduled_at end
    returning run
), told as (
    select pg_notify('{channel}', '') from entered limit 1
)
select (select count(*) from entered), (select count(*) from told)
