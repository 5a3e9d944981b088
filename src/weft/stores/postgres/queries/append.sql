-- A batch of appends of any kind, one for each run.  Returns which of them were written, and the runs of those that were
-- to be released and are not, since a message came at the same moment.
-- What is not returned by `created` or `changed` writes nothing anywhere.
-- Rows are locked in the order of ADR 40; one row needs no order.
-- If the new runs are for any worker, $28 is their queue, $29 their priority and $30 when they are due; null is now.
-- Otherwise $33 is where they go if this owner releases them.
-- $35 to $37 are tasks whose outcomes are among the events.
-- $34 is the key by which they take turns with others: after the last one of the key, and not before the first of all.
-- $38 is the fence that their client knows: if this database has another one, they are not created.
-- Some of the workers are called for them, as weft.ports.calls says; and for runs that are released and due now.
-- $39 to $41 are deadlines that have changed: when they are in danger, and when they are past; 'infinity' is none.
-- $42 are the unique keys of new runs, or null: a run whose id or key is taken is not created.
with given as materialized (
    select *
    from unnest(
        $1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[], $6::bytea[], $7::bytea[],
        $8::double precision[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::text[], $14::integer[],
        $15::integer[], $16::bytea[], $17::double precision[], $18::boolean[], $42::text[]
    ) with ordinality as g (
        run, expected, epoch, count, previous, chain, body, at, is_new, workflow, version, status, reason, failures,
        dead_letters, outcome, wake_at, is_released, unique_key, place
    )
), created as (
    insert into {schema}.weft_runs (
        id, workflow, version, status, reason, failures, dead_letters, outcome, head, chain, epoch, created_at,
        updated_at, finished_at, wake_at, queue, priority, unique_key
    )
    select run, workflow, coalesce(version, ''), coalesce(status, 'running'), reason, failures, dead_letters, outcome,
           count, chain, epoch, at, at, case when status in ('completed', 'failed', 'cancelled') then at end,
           nullif(wake_at, 'infinity'), coalesce($28::text, $33::text), coalesce($29::integer, 0), unique_key
    from given
    where is_new and ($38::text is null or $38 = (select s.fence from {schema}.weft_shard s))
    order by run
    on conflict do nothing
    returning key, id, status, wake_at, workflow, version
), changed as (
    update {schema}.weft_runs r
    set head = r.head + g.count,
        chain = case when g.count > 0 then g.chain else r.chain end,
        updated_at = g.at,
        workflow = coalesce(g.workflow, r.workflow),
        version = coalesce(g.version, r.version),
        status = coalesce(g.status, r.status),
        reason = case when g.status is null then r.reason else g.reason end,
        failures = case when g.status is null then r.failures else g.failures end,
        dead_letters = case when g.status is null then r.dead_letters else g.dead_letters end,
        outcome = case when g.status is null then r.outcome else g.outcome end,
        finished_at = case when g.status is null then r.finished_at
                           when g.status in ('completed', 'failed', 'cancelled') then g.at end,
        wake_at = case when g.wake_at is null then r.wake_at else nullif(g.wake_at, 'infinity') end
    from given g
    where not g.is_new and r.id = g.run and r.head = g.expected and r.epoch = g.epoch
      and (g.previous is null or r.chain = g.previous)
    returning r.key, r.status, r.wake_at, r.workflow, r.version, g.place
), accepted as (
    select c.key, c.status, c.wake_at, c.workflow, c.version, g.place
    from created c
    join given g on g.run = c.id and g.is_new
    union all
    select key, status, wake_at, workflow, version, place from changed
), added as (
    insert into {schema}.weft_events (run, first, at, count, chain, body)
    select a.key, g.expected + 1, g.at, g.count, g.chain, g.body
    from accepted a
    join given g on g.place = a.place
    where g.count > 0
), kept as (
    insert into {schema}.weft_facts (run, hash, body)
    select a.key, f.hash, f.body
    from unnest($19::bigint[], $20::bytea[], $21::bytea[]) as f (place, hash, body)
    join accepted a on a.place = f.place
    order by a.key, f.hash
    on conflict do nothing
), defined as (
    insert into {schema}.weft_definitions (hash, body)
    select d.hash, d.body
    from unnest($22::bigint[], $23::bytea[], $24::bytea[]) as d (place, hash, body)
    join accepted a on a.place = d.place
    order by d.hash
    on conflict do nothing
), snapped as (
    insert into {schema}.weft_snapshots (run, position, body)
    select a.key, g.expected + g.count, s.body
    from unnest($31::bigint[], $32::bytea[]) as s (place, body)
    join accepted a on a.place = s.place
    join given g on g.place = s.place
    on conflict (run) do update set position = excluded.position, body = excluded.body
), taken as (
    delete from {schema}.weft_inbox i
    using unnest($25::bigint[], $26::bigint[]) as t (place, number), accepted a
    where a.place = t.place and i.run = a.key and i.number = t.number
    returning i.run
), receipts as materialized (
    select t.key
    from unnest($35::bigint[], $36::bigint[], $37::integer[]) as d (place, key, fence)
    join accepted a on a.place = d.place
    join {schema}.weft_tasks t on t.key = d.key and t.fence = d.fence
    order by t.run, t.runnable
    for update of t
), ended as (
    delete from {schema}.weft_tasks t using receipts d where t.key = d.key
), due_by as (
    insert into {schema}.weft_deadlines as d (run, danger_at, deadline)
    select a.key, t.danger_at, t.deadline
    from unnest($39::bigint[], $40::double precision[], $41::double precision[]) as t (place, danger_at, deadline)
    join accepted a on a.place = t.place
    where t.deadline < 'infinity'
    on conflict (run) do update
    set told = d.told and d.deadline = excluded.deadline,
        danger_at = case when d.deadline = excluded.deadline then least(d.danger_at, excluded.danger_at)
                         else excluded.danger_at end,
        deadline = excluded.deadline
), in_time as (
    delete from {schema}.weft_deadlines d
    using unnest($39, $40, $41) as t (place, danger_at, deadline), accepted a
    where a.place = t.place and d.run = a.key and t.deadline = 'infinity'
), asked as (
    select r.key, g.run, g.at, g.is_new, g.is_released,
           r.status in ('completed', 'failed', 'cancelled') as is_finished,
           case when r.status = 'parked' then 1 else {program} end as program,
           case r.status when 'running' then least(g.at, extract(epoch from statement_timestamp()))
                         when 'waiting' then coalesce(r.wake_at, 'infinity') else 'infinity' end as due,
           (select count(*) from taken t where t.run = r.key)::integer as taken
    from accepted r
    join given g on g.place = r.place
    where g.is_new or g.is_released or g.status is not null or g.wake_at is not null
       or g.workflow is not null or g.version is not null or r.place = any($25::bigint[])
), following as (
    select greatest(
        coalesce((
            select max(q.turn) + 1
            from {schema}.weft_queue q
            where q.owner is null and q.turn is not null and q.queue = $28::text and q.priority = $29::integer and q.fair_key = $34
        ), 0),
        coalesce((
            select min(q.turn)
            from {schema}.weft_queue q
            where q.owner is null and q.turn is not null and q.queue = $28::text and q.priority = $29::integer
        ), 0)
    ) as turn
    where $34::text is not null and $30::double precision is null
), entered as (
    insert into {schema}.weft_queue (run, owner, scheduled_at, wake, queue, priority, program, fair_key, turn)
    select key, case when is_released then null else $27::bigint end,
           case when $28::text is null or due = 'infinity' then due
                else coalesce($30::double precision, extract(epoch from statement_timestamp())) end,
           0, coalesce($28, $33), coalesce($29, 0), program, $34,
           (select f.turn from following f) + row_number() over (order by key) - 1
    from asked
    where is_new and not (is_released and is_finished)
), ordered as materialized (
    select q.run
    from {schema}.weft_queue q
    where (select count(*) from asked) > 1 and q.run = any(array(select a.key from asked a where not a.is_new))
    order by q.run
    for update
), finished as (
    delete from {schema}.weft_queue q
    using asked a
    where (select count(*) from ordered) >= 0
      and not a.is_new and q.run = a.key and a.is_released and a.is_finished and q.wake = a.taken
    returning q.run
), queued as (
    update {schema}.weft_queue q
    set owner = case when a.is_released then null else q.owner end,
        wake = q.wake - a.taken,
        program = a.program,
        scheduled_at = case when q.wake > a.taken and not (a.program = 1 and {unheard}) then least(a.due, a.at)
                            else a.due end
    from asked a
    where (select count(*) from ordered) >= 0
      and not a.is_new and q.run = a.key and not (a.is_released and a.is_finished and q.wake = a.taken)
    returning q.run, q.owner, q.scheduled_at
), told as (
    select pg_notify('{channel}', format('%s %s 0 %s', count(*), random(), case when length($28) < 1000 then $28 end))
    from created
    where $28 is not null
    having count(*) > 0
), called as (
    select pg_notify('{channel}', format('%s %s 0 ', count(*), random()))
    from queued
    where owner is null and scheduled_at <= extract(epoch from statement_timestamp())
    having count(*) > 0
)
select coalesce((select array_agg(place) from accepted), array[]::bigint[]),
       coalesce((
           select array_agg(run) from asked a
           where a.is_released and not a.is_new and a.key not in (select run from finished)
             and a.key not in (select run from queued)
       ), array[]::text[]), (select count(*) from told), (select count(*) from called)
