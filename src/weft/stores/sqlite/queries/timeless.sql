-- Whether a run in one status, with failures or without, is of no time, so that no page would show it.
select exists (
    select 1 from runs r
    where r.status = :status and (r.failures is not 0) = :failed
      and r.created_at is null
)
