-- How many runs a workflow has, in whatever status: a stretch of the index for each.
with recursive found (status) as (
    select min(status) from runs
    union all
    select (select min(status) from runs where status > found.status) from found where found.status is not null
)
select count(*)
from found f
cross join runs r on r.status = f.status and (r.failures is not 0) in (0, 1) and r.workflow = :workflow
