-- The states of circuit breakers, and the time.
select l.name, l.state, l.revision, extract(epoch from clock_timestamp())::double precision
from unnest($1::text[]) as n (name)
join {schema}.weft_limits l on l.kind = 'circuit_breaker' and l.name = n.name
