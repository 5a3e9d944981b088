-- Offer steps of this owner, $1, to the workers of their queues, with the large values that they share.
-- One that is there in the same attempt is adopted: the run has a new owner, or this was sent before, in doubt.  Another
-- attempt takes the place of the one that is there.  What an owner sends whose run another one has taken is not written,
-- and not returned.
with given as materialized (
    select *
    from unnest(
        $2::text[], $3::text[], $4::integer[], $5::bigint[], $6::text[], $7::integer[], $8::text[], $9::text[],
        $10::bytea[]
    ) as g (run, runnable, attempt, epoch, queue, priority, workflow, version, body)
), kept as (
    insert into {schema}.weft_task_values (run, hash, body)
    select v.run, v.hash, v.body
    from unnest($11::text[], $12::bytea[], $13::bytea[]) as v (run, hash, body)
    order by v.run collate "C", v.hash
    on conflict (run, hash) do update set changed_at = clock_timestamp()
), sent as (
    insert into {schema}.weft_tasks as t (
        run, runnable, attempt, epoch, queue, priority, workflow, version, program, owner, body
    )
    select r.run, r.runnable, r.attempt, r.epoch, r.queue, r.priority, r.workflow, r.version, {program}, $1::bigint,
           r.body
    from given r
    where not exists (select from {schema}.weft_runs o where o.id = r.run and o.epoch > r.epoch)
    order by r.run collate "C", r.runnable collate "C"
    on conflict (run, runnable) do update
    set owner = excluded.owner, epoch = excluded.epoch, queue = excluded.queue, priority = excluded.priority,
        workflow = excluded.workflow, version = excluded.version, program = excluded.program, attempt = excluded.attempt,
        state = case when t.attempt = excluded.attempt then t.state else 'waiting' end,
        worker = case when t.attempt = excluded.attempt then t.worker end,
        outcome = case when t.attempt = excluded.attempt then t.outcome end,
        report = case when t.attempt = excluded.attempt then t.report end,
        deaths = case when t.attempt = excluded.attempt then t.deaths else 0 end,
        fence = t.fence + case when t.attempt = excluded.attempt then 0 else 1 end,
        body = case when t.attempt = excluded.attempt then t.body else excluded.body end,
        changed_at = clock_timestamp()
    where excluded.epoch >= t.epoch
    returning t.key, t.run, t.runnable, t.state
)
select s.key, s.run, s.runnable, s.state <> 'waiting' from sent s
