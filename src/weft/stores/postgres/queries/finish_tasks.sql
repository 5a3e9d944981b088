-- The outcomes of steps that this worker has claimed; one whose claim is over is dropped.  The owners are told.
with done as (
    update {schema}.weft_tasks t
    set state = 'done', outcome = g.outcome, worker = null, changed_at = clock_timestamp()
    from unnest($1::bigint[], $2::integer[], $3::bytea[]) as g (key, fence, outcome)
    where t.key = g.key and t.fence = g.fence and t.state = 'claimed'
    returning t.owner
), told as (
    select pg_notify(w.channel, 'answers')
    from {schema}.weft_workers w
    where w.key in (select owner from done) and w.ended_at is null
)
select (select count(*) from done), (select count(*) from told)
