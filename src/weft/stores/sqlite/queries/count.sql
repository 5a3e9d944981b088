-- How many runs are in one status, with failures or without.
select count(*) from runs r
where r.status = :status and (r.failures is not 0) = :failed
