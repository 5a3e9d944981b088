-- Release runs of this owner, in the order of locks of ADR 40.  Returns how many of them are still owned, since a message came at the same moment.
with given as (
    select r.key, r.status, r.wake_at, r.updated_at
    from {schema}.weft_runs r
    join {schema}.weft_queue q on q.run = r.key
    where r.id = any($1::text[]) and q.owner = $2::bigint
), ordered as materialized (
    select q.run
    from {schema}.weft_queue q
    where (select count(*) from given) > 1 and q.run = any(array(select g.key from given g))
    order by q.run
    for update
), finished as (
    delete from {schema}.weft_queue q
    using given g
    where (select count(*) from ordered) >= 0
      and q.run = g.key and q.owner = $2 and q.wake = 0 and g.status in ('completed', 'failed', 'cancelled')
    returning q.run
), queued as (
    update {schema}.weft_queue q
    set owner = null,
        scheduled_at = case when g.status = 'running' or (q.wake > 0 and not (g.status = 'parked' and {unheard}))
                            then least(g.updated_at, extract(epoch from statement_timestamp()))
                            when g.status = 'waiting' then coalesce(g.wake_at, 'infinity')
                            else 'infinity' end
    from given g
    where (select count(*) from ordered) >= 0
      and q.run = g.key and q.owner = $2 and not (q.wake = 0 and g.status in ('completed', 'failed', 'cancelled'))
    returning q.run, q.scheduled_at
), told as (
    select pg_notify('{channel}', format('%s %s 0 ', count(*), random()))
    from queued
    where scheduled_at <= extract(epoch from statement_timestamp())
    having count(*) > 0
)
select (select count(*) from given) - (select count(*) from finished) - (select count(*) from queued),
       (select count(*) from told)
