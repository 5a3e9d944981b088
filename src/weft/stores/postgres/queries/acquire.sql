-- Own the runs that are free, each in its next epoch.  Returns their records, and the epoch of the first owner that died
-- since the last event.
-- Whether a run is free is checked again on the newest version of its row in the queue, where others may be faster.
with asked as (
    select r.key, r.queue, r.priority, {program} as program, coalesce(
        q.owner <> $2::bigint and w.ended_at is null and w.expires_at <= statement_timestamp(), false
    ) as is_left
    from {schema}.weft_runs r
    left join {schema}.weft_queue q on q.run = r.key
    left join {schema}.weft_workers w on w.key = q.owner
    where r.id = any($1::text[]) and (q.owner = $2 or {free})
    order by r.id
    for no key update of r
), held as (
    insert into {schema}.weft_queue as q (run, owner, scheduled_at, wake, queue, priority, program)
    select key, $2, 'infinity', 0, queue, priority, program from asked order by key
    on conflict (run) do update set owner = excluded.owner, claim = null, turn = null, seen = q.wake
    where q.owner is null or q.owner = excluded.owner or exists (
        select from {schema}.weft_workers w
        where w.key = q.owner and (w.ended_at is not null or w.expires_at <= statement_timestamp())
    )
    returning run
), raised as (
    update {schema}.weft_runs r
    set epoch = r.epoch + 1,
        died_epoch = case when r.died_head is distinct from r.head
                           and r.key = any(array(select a.key from asked a where a.is_left)) then r.epoch
                          else r.died_epoch end,
        died_head = case when r.key = any(array(select a.key from asked a where a.is_left)) then r.head
                         else r.died_head end
    from held h
    where r.key = h.run
    returning r.*
)
select case when r.died_head = r.head then r.died_epoch end, r.key, r.id, r.workflow, r.version, r.status, r.reason,
       r.failures, r.dead_letters, r.outcome, r.head, r.chain, r.epoch, r.created_at, r.updated_at, r.finished_at,
       r.wake_at, r.first, $3::text as owner
from raised r
