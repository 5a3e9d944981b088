-- Every status that a run has: a step down the index for each of them.  Null, if some run has none.
with recursive found (status) as (
    select min(status) from runs
    union all
    select (select min(status) from runs where status > found.status) from found where found.status is not null
)
select status from found where status is not null
union all
select null where exists (select 1 from runs where status is null)
