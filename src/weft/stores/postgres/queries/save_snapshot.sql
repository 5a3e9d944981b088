-- A snapshot of events that are stored, in place of the one before, if the run is in this epoch.  Returns its epoch, its
-- head and the first event that it has left; nothing if there is no such run.
with found as (
    select key, epoch, head, first from {schema}.weft_runs where id = $1 for no key update
), saved as (
    insert into {schema}.weft_snapshots as s (run, position, body)
    select key, $3::bigint, $4::bytea from found where epoch = $2::bigint and head >= $3 and first <= $3 + 1
    on conflict (run) do update set position = excluded.position, body = excluded.body
)
select epoch, head, first from found
