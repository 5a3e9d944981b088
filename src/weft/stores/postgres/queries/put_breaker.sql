-- Put the state of a circuit breaker in place of the one with revision $4, or create it if that is 0.
with created as (
    insert into {schema}.weft_limits (kind, name, rule, state, revision)
    select 'circuit_breaker', $1, $2, $3, 1
    where $4::bigint = 0
    on conflict (kind, name) do nothing
    returning 1
), changed as (
    update {schema}.weft_limits
    set rule = $2, state = $3, revision = revision + 1
    where kind = 'circuit_breaker' and name = $1 and revision = $4 and $4 > 0
    returning 1
)
select (select count(*) from created) + (select count(*) from changed)
