-- Take $4 turns of a rate limit, each $3 seconds after the one before.  Returns the time of the first, and the time.
insert into {schema}.weft_limits as l (kind, name, rule, due)
values ('rate_limit', $1, $2, extract(epoch from clock_timestamp()) + $3::double precision * $4::integer)
on conflict (kind, name) do update
set rule = excluded.rule, due = greatest(l.due, extract(epoch from clock_timestamp())) + $3 * $4
returning l.due - $3 * $4, extract(epoch from clock_timestamp())::double precision
