-- The owners on this machine whose leases have not expired.
select key, pid, born
from {schema}.weft_workers
where machine = $1 and ended_at is null and expires_at > statement_timestamp()
