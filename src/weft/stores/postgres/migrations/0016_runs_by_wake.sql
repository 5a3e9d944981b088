-- The waiting runs in the order in which they are woken; those that time alone does not wake come last.
create index weft_runs_by_wake on {schema}.weft_runs (coalesce(wake_at, 'infinity'), created_at, id)
where status = 'waiting';
