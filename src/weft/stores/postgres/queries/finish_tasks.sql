-- The outcomes of steps that this worker has claimed; one whose claim is over is dropped.  The owners are told.
with ordered as materialized (
    select t.key, g.outcome
    from unnest($1::bigint[], $2::integer[], $3::bytea[]) as g (key, fence, outcome)
    join {schema}.weft_tasks t on t.key = g.key and t.fence = g.fence and t.state = 'claimed'
    order by t.run, t.runnable
    for update of t
), done as (
    update {schema}.weft_tasks t
    set state = 'done', outcome = o.outcome, worker = null, changed_at = clock_timestamp()
    from ordered o
    where t.key = o.key
    returning t.owner
), told as (
    select pg_notify(w.channel, 'answers')
    from {schema}.weft_workers w
    where w.key in (select owner from done) and w.ended_at is null
)
select (select count(*) from done), (select count(*) from told)
