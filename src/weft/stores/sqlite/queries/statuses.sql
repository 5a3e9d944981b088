-- Every status that a run has: a step down the index for each of them.  Null, if no page would show some run.
with recursive found (status) as (
    select min(status) from runs
    union all
    select (select min(status) from runs where status > found.status) from found where found.status is not null
)
select status from found where status is not null
union all
select null where exists (select 1 from runs where status is null)
union all
select null where exists (
    select 1 from runs
    where status in ('running', 'waiting', 'idle', 'parked', 'completed', 'failed', 'cancelled')
      and (failures is not 0) in (0, 1)
      and created_at is null
)
