-- Remove owners that no run and no step names, and that have closed an hour ago or were last alive a week ago.
delete from {schema}.weft_workers w
where (w.expires_at < clock_timestamp() - interval '7 days' or w.ended_at < clock_timestamp() - interval '1 hour')
  and not exists (select from {schema}.weft_queue q where q.owner = w.key)
  and not exists (select from {schema}.weft_tasks t where t.worker = w.key and t.state = 'claimed')
