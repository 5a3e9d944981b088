-- The unfinished run of a workflow that has a unique key.
select id from runs
where workflow = :workflow and unique_key = :unique and unique_key is not null
  and status not in ('completed', 'failed', 'cancelled')
