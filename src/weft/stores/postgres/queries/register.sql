-- A new owner, with a lease of so many seconds.
insert into {schema}.weft_workers (expires_at, pid, born, machine, name, channel)
values (clock_timestamp() + $1::double precision * interval '1 second', $2, $3, $4, $5, $6)
returning key
