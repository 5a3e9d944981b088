-- A run of each workflow that has runs in one status, with failures or without: a step down the index for each.
with recursive found (key) as (
    select (
        select r.key from runs r
        where r.status = :status and (r.failures is not 0) = :failed
        order by r.workflow
        limit 1
    )
    union all
    select (
        select r.key from runs r
        where r.status = :status and (r.failures is not 0) = :failed
          and r.workflow > coalesce((select workflow from runs where key = found.key), '')
        order by r.workflow
        limit 1
    )
    from found where found.key is not null
)
select key from found where key is not null
