-- Renew a lease, also if its row was removed.  Returns the number of the last message for a run of this owner, what is
-- wanted of it, the version of the schema, how many runs the other workers that serve the same have and could have, the
-- place of this one among them, and the deadlines in danger of runs that no process has: a worker that finds one first tells it.
-- The last column is the time.
with renewed as (
    insert into {schema}.weft_workers as w (
        key, expires_at, pid, born, machine, name, channel, worker, state, wanted, serves, active, concurrency
    )
    values (
        $1, clock_timestamp() + $2::double precision * interval '1 second', $3, $4, $5, $6, $7, $8, $9::text, $10, $11,
        $12::integer, $13::integer
    )
    on conflict (key) do update
    set expires_at = excluded.expires_at, state = excluded.state, active = excluded.active,
        concurrency = excluded.concurrency
    returning w.wanted
), peers as (
    select array_agg(w.active order by w.key) as active, array_agg(w.concurrency order by w.key) as concurrency,
           count(*) filter (where w.key < $1)::integer as rank
    from {schema}.weft_workers w
    where $11::text <> '' and w.serves = $11 and w.key <> $1 and w.state = 'working' and w.ended_at is null
      and w.expires_at > statement_timestamp()
), untold as (
    select d.run
    from {schema}.weft_deadlines d
    join {schema}.weft_runs r on r.key = d.run
    left join {schema}.weft_queue q on q.run = d.run
    left join {schema}.weft_workers w on w.key = q.owner
    where $11::text <> '' and not d.told and d.danger_at <= extract(epoch from statement_timestamp())
      and r.status not in ('completed', 'failed', 'cancelled') and {free}
    order by d.danger_at
    limit 100
    for update of d skip locked
), told as (
    update {schema}.weft_deadlines d
    set told = true
    from untold u, {schema}.weft_runs r
    where d.run = u.run and r.key = u.run
    returning r.id, r.workflow, r.status, d.deadline, d.danger_at
), endangered as (
    select array_agg(t.id order by t.deadline) as runs, array_agg(t.workflow order by t.deadline) as workflows,
           array_agg(t.status order by t.deadline) as statuses, array_agg(t.deadline order by t.deadline) as deadlines,
           array_agg(t.danger_at order by t.deadline) as times
    from told t
)
select (
    select coalesce(max(i.number), 0)
    from {schema}.weft_queue q
    join {schema}.weft_inbox i on i.run = q.run
    where q.owner = $1 and q.wake > 0
), (select wanted from renewed), (select max(version) from {schema}.weft_schema), p.active, p.concurrency, p.rank,
   e.runs, e.workflows, e.statuses, e.deadlines, e.times, extract(epoch from clock_timestamp())::double precision
from peers p, endangered e
