-- Of the steps $2 of the owner $1, at most $3 that have ended, in the order in which they ended, and all that run, with
-- what they last reported, or are not there any more.
(
    select t.key, t.state, t.fence, t.outcome, null::bytea as report
    from {schema}.weft_tasks t
    where t.key = any($2::bigint[]) and t.owner = $1::bigint and t.state = 'done'
    order by t.changed_at, t.key
    limit $3
)
union all
(
    select k.key, t.state, t.fence, null, t.report
    from unnest($2) as k (key)
    left join {schema}.weft_tasks t on t.key = k.key and t.owner = $1
    where t.key is null or t.state = 'claimed'
)
