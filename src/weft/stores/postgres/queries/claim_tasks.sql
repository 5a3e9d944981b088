-- At most $1 steps of the queues $2 for the worker $5, which knows the workflows $3 in the versions $4; the most urgent
-- first.  Steps of a worker whose lease is over are offered again, unless $6 workers have died with one of them: then it
-- has ended, without an outcome.  Rows that another process has locked are skipped.
-- $7 to $9 are the outcomes of steps that this worker has claimed before, as in finish_tasks: a place that has become
-- free is filled by the statement that stores why.  Their rows are locked first: nothing is waited for after that.
-- The last rows say on which channels the owners of which steps are to be notified, after the commit.
with recursive ordered as materialized (
    select t.key, g.outcome
    from unnest($7::bigint[], $8::integer[], $9::bytea[]) as g (key, fence, outcome)
    join {schema}.weft_tasks t on t.key = g.key and t.fence = g.fence and t.state = 'claimed'
    order by t.run, t.runnable
    for update of t
), done as (
    update {schema}.weft_tasks t
    set state = 'done', outcome = o.outcome, worker = null, changed_at = clock_timestamp()
    from ordered o
    where t.key = o.key
    returning t.owner, t.key
), busy as (
    select min(t.worker) as worker from {schema}.weft_tasks t where t.state = 'claimed'
    union all
    select (select min(t.worker) from {schema}.weft_tasks t where t.state = 'claimed' and t.worker > b.worker)
    from busy b
    where b.worker is not null
), dead as materialized (
    select f.key, f.priority, f.workflow, f.version,
           f.deaths + case when w.key is not null and w.ended_at is null then 1 else 0 end as deaths
    from busy b
    left join {schema}.weft_workers w on w.key = b.worker
    cross join lateral (
        select t.key, t.priority, t.workflow, t.version, t.deaths
        from {schema}.weft_tasks t
        where t.state = 'claimed' and t.worker = b.worker and t.queue = any($2::text[])
        order by t.key
        limit $1
        for update skip locked
    ) f
    where (select count(*) from ordered) >= 0
      and (w.key is null or w.ended_at is not null or w.expires_at <= statement_timestamp())
), lost as (
    update {schema}.weft_tasks t
    set state = 'done', outcome = null, worker = null, deaths = d.deaths, fence = t.fence + 1,
        changed_at = clock_timestamp()
    from dead d
    where t.key = d.key and d.deaths >= $6::integer
    returning t.owner, t.key
), program as materialized (
    select {program} as program from unnest($3::text[], $4::text[]) as r (workflow, version)
    union
    select 0
), waiting as materialized (
    select f.key, f.priority, f.deaths
    from unnest($2) as n (queue)
    cross join program p
    cross join lateral (
        select t.key, t.priority, t.deaths
        from {schema}.weft_tasks t
        where t.state = 'waiting' and t.queue = n.queue and t.program = p.program
          and exists (
              select from unnest($3, $4) as k (workflow, version)
              where k.workflow = t.workflow and k.version = t.version
          )
          and not exists (
              select from {schema}.weft_runs r
              where r.id = t.run and r.status in ('completed', 'failed', 'cancelled')
              offset 0
          )
        order by t.priority desc, t.key
        limit $1
        for update skip locked
    ) f
    where (select count(*) from ordered) >= 0
), picked as materialized (
    select o.key, o.deaths
    from (
        select d.key, d.priority, d.deaths
        from dead d
        join unnest($3::text[], $4::text[]) as k (workflow, version)
            on k.workflow = d.workflow and k.version = d.version
        where d.deaths < $6
        union all
        select key, priority, deaths from waiting
    ) o
    order by o.priority desc, o.key
    limit $1
), held as (
    update {schema}.weft_tasks t
    set state = 'claimed', worker = $5::bigint, fence = t.fence + 1, deaths = p.deaths, report = null,
        changed_at = clock_timestamp()
    from picked p
    where t.key = p.key
    returning t.key, t.fence, t.run, t.workflow, t.version, t.body, t.owner, t.priority
), told as (
    select w.channel, array_agg(n.key) as keys
    from (
        select owner, key from held
        union all
        select owner, key from lost
        union all
        select owner, key from done
    ) n
    join {schema}.weft_workers w on w.key = n.owner and w.ended_at is null
    group by w.channel
)
select e.key, e.fence, e.run, e.workflow, e.version, e.body, e.channel, e.keys
from (
    select key, fence, run, workflow, version, body, priority, null as channel, null::bigint[] as keys from held
    union all
    select null, null, null, null, null, null, null, channel, keys from told
) e
order by e.priority desc, e.key
