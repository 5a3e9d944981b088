-- End the leases of processes that are known to be dead.
update {schema}.weft_workers
set expires_at = statement_timestamp()
where key = any($1::bigint[]) and ended_at is null and expires_at > statement_timestamp()
