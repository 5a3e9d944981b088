-- Own runs that are due and free, in the order of priority, due time and creation, each in its next epoch; at most $1.
-- New runs with a key are in the order of their turns, and alternate with the others.
-- Rows that another process has locked are skipped.  Each program of each priority of each queue is read in the order of
-- its index: what this process cannot run, and what is due later, is not looked at.  The first of all programs together
-- (`due`, `first`) say how many runs of which program to lock: those, and some more where others may be faster.
-- $7 is the number of this claim.  It takes nothing if `settle` has come before it, and `settle` waits for its end.
with recursive me as materialized (
    select from {schema}.weft_workers w where w.key = $5::bigint and w.settled < $7::bigint for key share
), level as (
    select n.queue, greatest((
        select max(q.priority) from {schema}.weft_queue q where q.owner is null and q.turn is null and q.queue = n.queue
    ), (
        select max(q.priority)
        from {schema}.weft_queue q
        where q.owner is null and q.turn is not null and q.queue = n.queue
    )) as priority
    from unnest($2::text[]) as n (queue)
    where exists (select from me)
    union all
    select l.queue, greatest((
        select max(q.priority)
        from {schema}.weft_queue q
        where q.owner is null and q.turn is null and q.queue = l.queue and q.priority < l.priority
    ), (
        select max(q.priority)
        from {schema}.weft_queue q
        where q.owner is null and q.turn is not null and q.queue = l.queue and q.priority < l.priority
    ))
    from level l
    where l.priority is not null
), program as materialized (
    select {program} as program
    from unnest($3::text[], $4::text[]) as k (workflow, version)
    cross join lateral (values (k.workflow, k.version), (k.workflow, '')) as r (workflow, version)
    union
    select unnest('{0, 1}'::integer[])
), due as materialized (
    select queue, priority, program, least($1::bigint, count(*) filter (where place <= $1::bigint) + 1 + $1::bigint / count(*) over ()) as most
    from (
        select l.queue, l.priority, p.program, row_number() over (order by l.priority desc, f.scheduled_at, f.run) as place
        from level l
        cross join program p
        cross join lateral (
            select q.run, q.scheduled_at
            from {schema}.weft_queue q
            where q.owner is null and q.turn is null and q.queue = l.queue and q.priority = l.priority
              and q.program = p.program and q.scheduled_at <= extract(epoch from statement_timestamp())
            order by q.scheduled_at, q.run
            limit $1::bigint
        ) f
    ) n
    group by queue, priority, program
), offered as materialized (
    select f.run, f.priority, f.scheduled_at, false as is_left
    from due d
    cross join lateral (
        select q.run, q.priority, q.scheduled_at
        from {schema}.weft_queue q
        join {schema}.weft_runs r on r.key = q.run
        where q.owner is null and q.turn is null and q.queue = d.queue and q.priority = d.priority
          and q.program = d.program and q.scheduled_at <= extract(epoch from statement_timestamp())
          and {known}
        order by q.scheduled_at, q.run
        limit d.most
        for no key update of r skip locked
        for update of q skip locked
    ) f
), first as materialized (
    select queue, priority, program, least($1::bigint, count(*) filter (where place <= $1::bigint) + 1 + $1::bigint / count(*) over ()) as most
    from (
        select l.queue, l.priority, p.program, row_number() over (order by l.priority desc, f.turn, f.run) as place
        from level l
        cross join program p
        cross join lateral (
            select q.run, q.turn
            from {schema}.weft_queue q
            where q.owner is null and q.turn is not null and q.queue = l.queue and q.priority = l.priority
              and q.program = p.program
            order by q.turn, q.run
            limit $1::bigint
        ) f
    ) n
    group by queue, priority, program
), in_turn as materialized (
    select f.run, f.priority, f.turn
    from first d
    cross join lateral (
        select q.run, q.priority, q.turn
        from {schema}.weft_queue q
        join {schema}.weft_runs r on r.key = q.run
        where q.owner is null and q.turn is not null and q.queue = d.queue and q.priority = d.priority
          and q.program = d.program and {known}
        order by q.turn, q.run
        limit d.most
        for no key update of r skip locked
        for update of q skip locked
    ) f
), gone as materialized (
    select w.key, w.ended_at is null as is_left
    from {schema}.weft_workers w
    where (w.ended_at is not null or w.expires_at <= statement_timestamp()) and exists (select from me)
      and (select q.run from {schema}.weft_queue q where q.owner = w.key limit 1) is not null
), left_behind as materialized (
    select f.run, f.priority, f.scheduled_at, o.is_left
    from gone o
    cross join program p
    cross join lateral (
        select q.run, q.priority, q.scheduled_at
        from {schema}.weft_queue q
        join {schema}.weft_runs r on r.key = q.run
        where q.owner = o.key and q.program = p.program and q.queue = any($2::text[]) and q.scheduled_at <= extract(epoch from statement_timestamp())
          and {known}
        order by q.priority desc, q.scheduled_at, q.run
        limit $1::bigint
        for no key update of r skip locked
        for update of q skip locked
    ) f
), timed as (
    select * from offered
    union all
    select * from left_behind
), picked as materialized (
    select run, priority, is_left, row_number() over (partition by priority order by scheduled_at, run) as place,
           false as is_in_turn
    from timed
    union all
    select run, priority, false, row_number() over (partition by priority order by turn, run), true
    from in_turn
    order by priority desc, place, is_in_turn
    limit $1::bigint
), held as (
    update {schema}.weft_queue q
    set owner = $5::bigint, turn = null, claim = $7::bigint, seen = q.wake
    where q.run = any(array(select p.run from picked p))
    returning q.run, q.seen
), raised as (
    update {schema}.weft_runs r
    set epoch = r.epoch + 1,
        died_epoch = case when r.died_head is distinct from r.head
                           and r.key = any(array(select p.run from picked p where p.is_left)) then r.epoch
                          else r.died_epoch end,
        died_head = case when r.key = any(array(select p.run from picked p where p.is_left)) then r.head
                         else r.died_head end
    where r.key = any(array(select p.run from picked p))
    returning r.*
)
select case when r.died_head = r.head then r.died_epoch end, h.seen, r.key, r.id, r.workflow, r.version, r.status, r.reason,
       r.failures, r.dead_letters, r.outcome, r.head, r.chain, r.epoch, r.created_at, r.updated_at, r.finished_at,
       r.wake_at, r.first, $6::text as owner
from raised r
join picked p on p.run = r.key
join held h on h.run = r.key
order by p.priority desc, p.place, p.is_in_turn
