-- The outcomes of steps that this worker has claimed; one whose claim is over is dropped.  Returns on which
-- channels the owners of which steps are to be notified, after the commit.
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
    returning t.owner, t.key
)
select w.channel, array_agg(d.key)
from done d
join {schema}.weft_workers w on w.key = d.owner and w.ended_at is null
group by w.channel
