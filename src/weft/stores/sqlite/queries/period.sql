-- How many runs in one status, with failures or without, were created in one period.
select count(*) from runs r
where r.status = :status and (r.failures is not 0) = :failed and r.created_at >= :begin and r.created_at < :end
