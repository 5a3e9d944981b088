-- Events of one run: what `advance` does, without arrays.  It inserts one row, or none.
-- It returns nothing: the server counts what it has inserted, and keeps no rows for the driver to fetch.
with advanced as (
    update {schema}.weft_runs
    set head = head + $4::integer, chain = $6::bytea, updated_at = $8::double precision
    where id = $1 and head = $2::bigint and epoch = $3::bigint and ($5::bytea is null or chain = $5)
    returning key
)
insert into {schema}.weft_events (run, first, at, count, chain, body)
select key, $2 + 1, $8, $4, $6, $7::bytea from advanced
