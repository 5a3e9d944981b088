-- What a process says how far the steps of a run have come, in place of what was said before.
insert into {schema}.weft_progress (run, body)
select key, $2::bytea from {schema}.weft_runs where id = $1 for key share
on conflict (run) do update set body = excluded.body
