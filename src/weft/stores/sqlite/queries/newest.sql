-- When the newest run in one status, with failures or without, was created.
select max(r.created_at) from runs r
where r.status = :status and (r.failures is not 0) = :failed
