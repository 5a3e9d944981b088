-- Finished runs, with failures or without, that were last written before a time, oldest first.
-- None is written before it is created.
select r.key, r.owner from runs r
where r.status = :status and (r.failures is not 0) = :failed
  and r.created_at < :before and r.updated_at < :before
  and coalesce(
      (select at from segments
       where place between r.key << 32 and (r.key << 32) + 4294967295
       order by place desc limit 1) < :before,
      true)
order by r.created_at, r.id
