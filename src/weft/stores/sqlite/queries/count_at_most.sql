-- How many runs are in one status, with failures or without, if they are not more than that.
select count(*) from (
    select 1 from runs r
    where r.status = :status and (r.failures is not 0) = :failed and r.created_at < :until
    limit :most
)
