-- Remove owners that ended long ago and that no run names.
delete from {schema}.weft_workers w
where w.expires_at < clock_timestamp() - interval '7 days'
  and not exists (select from {schema}.weft_queue q where q.owner = w.key)
