-- Release runs of this owner.  Returns how many of them are still owned, since a message came at the same moment.
with given as (
    select r.key, r.status, r.wake_at, r.updated_at
    from {schema}.weft_runs r
    join {schema}.weft_queue q on q.run = r.key
    where r.id = any($1::text[]) and q.owner = $2::bigint
), finished as (
    delete from {schema}.weft_queue q
    using given g
    where q.run = g.key and q.owner = $2 and q.wake = 0 and g.status in ('completed', 'failed', 'cancelled')
    returning q.run
), queued as (
    update {schema}.weft_queue q
    set owner = null,
        scheduled_at = case when q.wake > 0 or g.status = 'running' then least(g.updated_at, extract(epoch from statement_timestamp()))
                            when g.status = 'waiting' then coalesce(g.wake_at, 'infinity')
                            else 'infinity' end
    from given g
    where q.run = g.key and q.owner = $2 and not (q.wake = 0 and g.status in ('completed', 'failed', 'cancelled'))
    returning q.run, q.scheduled_at
), told as (
    select pg_notify('{channel}', '')
    where exists (select from queued where scheduled_at <= extract(epoch from statement_timestamp()))
)
select (select count(*) from given) - (select count(*) from finished) - (select count(*) from queued),
       (select count(*) from told)
