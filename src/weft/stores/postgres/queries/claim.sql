-- Own runs that are due and free, in the order of priority, due time and creation, each in its next epoch; at most $1.
-- New runs with a key are in the order of their turns, and alternate with the others.
-- Rows that another process has locked are skipped.  Each priority of each queue is read in the order of its index, so
-- runs that are due later are not looked at.  A parked run is only for messages that it takes while it is parked.
-- $7 is the number of this claim.  It takes nothing if `settle` has come before it, and `settle` waits for its end.
with recursive me as materialized (
    select from {schema}.weft_workers w where w.key = $5 and w.settled < $7::bigint for key share
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
), offered as materialized (
    select f.run, f.priority, f.scheduled_at, false as is_left
    from level l
    cross join lateral (
        select q.run, q.priority, q.scheduled_at
        from {schema}.weft_queue q
        join {schema}.weft_runs r on r.key = q.run
        where q.owner is null and q.turn is null and q.queue = l.queue and q.priority = l.priority
          and q.scheduled_at <= extract(epoch from statement_timestamp())
          and {known}
        order by q.scheduled_at, q.run
        limit $1
        for no key update of r skip locked
        for update of q skip locked
    ) f
), in_turn as materialized (
    select f.run, f.priority, f.turn
    from level l
    cross join lateral (
        select q.run, q.priority, q.turn
        from {schema}.weft_queue q
        join {schema}.weft_runs r on r.key = q.run
        where q.owner is null and q.turn is not null and q.queue = l.queue and q.priority = l.priority
          and {known}
        order by q.turn, q.run
        limit $1
        for no key update of r skip locked
        for update of q skip locked
    ) f
), left_behind as materialized (
    select f.run, f.priority, f.scheduled_at, w.ended_at is null as is_left
    from {schema}.weft_workers w
    cross join lateral (
        select q.run, q.priority, q.scheduled_at
        from {schema}.weft_queue q
        join {schema}.weft_runs r on r.key = q.run
        where q.owner = w.key and q.queue = any($2) and q.scheduled_at <= extract(epoch from statement_timestamp())
          and {known}
        order by q.priority desc, q.scheduled_at, q.run
        limit $1
        for no key update of r skip locked
        for update of q skip locked
    ) f
    where (w.ended_at is not null or w.expires_at <= statement_timestamp()) and exists (select from me)
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
    limit $1
), held as (
    update {schema}.weft_queue q
    set owner = $5::bigint, turn = null, claim = $7
    where q.run = any(array(select p.run from picked p))
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
select case when r.died_head = r.head then r.died_epoch end, r.key, r.id, r.workflow, r.version, r.status, r.reason,
       r.failures, r.dead_letters, r.outcome, r.head, r.chain, r.epoch, r.created_at, r.updated_at, r.finished_at,
       r.wake_at, r.first, $6::text as owner
from raised r
join picked p on p.run = r.key
order by p.priority desc, p.place, p.is_in_turn
