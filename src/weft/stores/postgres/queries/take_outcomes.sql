-- Of the steps $2 of the owner $1, those that run or have ended, in the order in which they ended, and those that are
-- not there any more; at most $3.
select k.key, t.state, t.fence, t.outcome
from unnest($2::bigint[]) as k (key)
left join {schema}.weft_tasks t on t.key = k.key and t.owner = $1::bigint
where t.key is null or t.state <> 'waiting'
order by t.state = 'claimed', t.changed_at, k.key
limit $3
