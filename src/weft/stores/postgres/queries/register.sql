-- A new owner, with a lease of so many seconds.
insert into {schema}.weft_workers (
    expires_at, pid, born, machine, name, channel, worker, state, wanted, serves, active, concurrency
)
values (
    clock_timestamp() + $1::double precision * interval '1 second', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
)
returning key
