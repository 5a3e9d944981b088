-- How far steps have come that this worker has claimed; a report about a claim that is over is dropped.  Returns on which
-- channels the owners of which steps are to be notified, after the commit.
with ordered as materialized (
    select t.key, g.report
    from unnest($1::bigint[], $2::integer[], $3::bytea[]) as g (key, fence, report)
    join {schema}.weft_tasks t on t.key = g.key and t.fence = g.fence and t.state = 'claimed'
    order by t.run, t.runnable
    for update of t
), reported as (
    update {schema}.weft_tasks t
    set report = o.report
    from ordered o
    where t.key = o.key
    returning t.owner, t.key
)
select w.channel, array_agg(r.key)
from reported r
join {schema}.weft_workers w on w.key = r.owner and w.ended_at is null
group by w.channel
