-- Say what is wanted of a worker that is alive, and tell it.  Returns one row for each of its rows.
with told as (
    update {schema}.weft_workers
    set wanted = $2
    where worker = $1 and worker <> '' and ended_at is null and expires_at > statement_timestamp()
    returning channel
)
select pg_notify(channel, 'wanted') from told
