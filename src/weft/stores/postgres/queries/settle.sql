-- Let no claim of this owner up to number $2 take anything from now on, and wait for the end of those that run.
with me as materialized (
    select w.key from {schema}.weft_workers w where w.key = $1::bigint for update
)
update {schema}.weft_workers w
set settled = greatest(w.settled, $2::bigint)
from me
where w.key = me.key
