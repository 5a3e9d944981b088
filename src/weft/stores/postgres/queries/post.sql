-- Messages, in their order.  A parked run is due only for a message that it takes while it is parked, and one that was
-- started for later and that no worker has claimed yet only for a cancellation.
-- The row of the queue is locked before a number is drawn, so that the messages of a run become visible in the order of
-- their numbers.  Returns the places of those whose runs exist, and the numbers, both
-- sorted, and whether this owner has one of the runs.  If another run continues one of the runs, nothing is stored, and
-- it is returned which: a row that was locked is read as it is then, so that no continuation is missed.
with given as materialized (
    select *
    from unnest($1::text[], $2::text[], $3::double precision[], $4::bytea[]) with ordinality
        as g (run, kind, at, body, place)
), found as materialized (
    select r.key, r.id, r.successor, r.queue, r.priority, r.epoch = 1 and r.status = 'running' as is_new,
           {program} as program
    from {schema}.weft_runs r
    where r.id in (select run from given)
    order by r.id
    for key share
), continued as (
    select f.id from found f where f.successor is not null
), known as (
    select f.key, f.id, f.queue, f.priority, f.is_new, f.program from found f where not exists (select from continued)
), raised as (
    insert into {schema}.weft_queue as q (run, owner, scheduled_at, wake, queue, priority, program)
    select k.key, null, extract(epoch from statement_timestamp()), count(*), k.queue, k.priority, k.program
    from known k
    join given g on g.run = k.id
    group by k.key, k.queue, k.priority, k.program
    order by k.key
    on conflict (run) do update
    set wake = q.wake + excluded.wake,
        scheduled_at = case when (
                                q.program = 1
                                or q.owner is null and q.run = any(array(select k.key from known k where k.is_new))
                            ) and q.run <> all(array(
                                select k.key
                                from known k
                                join given g on g.run = k.id
                                where g.kind in ('cancel', 'retry', 'discard')
                            )) then q.scheduled_at
                            else least(q.scheduled_at, excluded.scheduled_at) end
    returning run, owner
), posted as (
    insert into {schema}.weft_inbox (run, at, kind, body)
    select k.key, g.at, g.kind, g.body
    from raised q
    join known k on k.key = q.run
    join given g on g.run = k.id
    order by g.place
    returning number
), told as (
    select pg_notify(w.channel, '')
    from {schema}.weft_workers w
    where w.key in (select owner from raised) and w.key is distinct from $5::bigint and w.ended_at is null
), woken as (
    select pg_notify('{channel}', format('%s %s 0 ', count(*), random()))
    from raised q
    left join {schema}.weft_workers w on w.key = q.owner
    where {free}
    having count(*) > 0
)
select coalesce((select array_agg(g.place order by g.place) from given g where g.run in (select id from known)),
                array[]::bigint[]),
       coalesce((select array_agg(number order by number) from posted), array[]::bigint[]),
       exists (select from raised where owner = $5), (select count(*) from told),
       (select count(*) from woken),
       coalesce((select array_agg(id) from continued), array[]::text[])
