-- Finished runs that were last written before a time, oldest first.  None is written before it is created.
select key, owner from runs
where status = :status and created_at < :before and updated_at < :before
order by created_at, id
