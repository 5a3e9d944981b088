-- At most $1 steps of the queues $2 for the worker $5, which knows the workflows $3 in the versions $4; the most urgent
-- first.  Steps of a worker whose lease is over are offered again, unless $6 workers have died with one of them: then it
-- has ended, without an outcome.  Rows that another process has locked are skipped.
with dead as materialized (
    select t.key, t.priority, t.workflow, t.version,
           t.deaths + case when w.ended_at is null then 1 else 0 end as deaths
    from {schema}.weft_tasks t
    left join {schema}.weft_workers w on w.key = t.worker
    where t.state = 'claimed' and t.queue = any($2::text[])
      and (w.key is null or w.ended_at is not null or w.expires_at <= statement_timestamp())
    order by t.key
    limit $1
    for update of t skip locked
), lost as (
    update {schema}.weft_tasks t
    set state = 'done', outcome = null, worker = null, deaths = d.deaths, fence = t.fence + 1,
        changed_at = clock_timestamp()
    from dead d
    where t.key = d.key and d.deaths >= $6::integer
    returning t.owner
), waiting as materialized (
    select t.key, t.priority, t.deaths
    from {schema}.weft_tasks t
    where t.state = 'waiting' and t.queue = any($2)
      and exists (
          select from unnest($3::text[], $4::text[]) as k (workflow, version)
          where k.workflow = t.workflow and k.version = t.version
      )
      and not exists (
          select from {schema}.weft_runs r where r.id = t.run and r.status in ('completed', 'failed', 'cancelled')
      )
    order by t.priority desc, t.key
    limit $1
    for update skip locked
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
    set state = 'claimed', worker = $5::bigint, fence = t.fence + 1, deaths = p.deaths, changed_at = clock_timestamp()
    from picked p
    where t.key = p.key
    returning t.key, t.fence, t.run, t.workflow, t.version, t.body, t.owner, t.priority
), told as (
    select pg_notify(w.channel, 'answers')
    from {schema}.weft_workers w
    where w.key in (select owner from held union all select owner from lost) and w.ended_at is null
)
select h.key, h.fence, h.run, h.workflow, h.version, h.body
from (select count(*) as count from told) n
left join held h on n.count is not null
order by h.priority desc, h.key
