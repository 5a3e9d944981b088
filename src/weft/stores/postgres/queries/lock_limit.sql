-- Lock the row of a limit, which is created if it is not there.
insert into {schema}.weft_limits as l (kind, name, rule) values ($1, $2, $3)
on conflict (kind, name) do update set rule = excluded.rule
