-- Put a row of a schedule in place of the one with its revision, or create it if that is 0.  Returns 1 if it is written.
-- $6 is the fence that its client knows: if this database has another one, it is not created.
-- Workers are notified of a new one, of one that is due already, and of one that is due earlier than they know: if it
-- was due within five seconds, as while one of them fires it, they look by then.
with known as materialized (
    select s.look_at from {schema}.weft_schedules s where s.name = $1::text and s.revision = $5::bigint
), created as (
    insert into {schema}.weft_schedules (name, workflow, look_at, body, revision)
    select $1, $2::text, $3::double precision, $4::bytea, 1
    where $5 = 0 and ($6::text is null or $6 = (select s.fence from {schema}.weft_shard s))
    on conflict (name) do nothing
    returning 1
), changed as (
    update {schema}.weft_schedules
    set workflow = $2, look_at = $3, body = $4, revision = revision + 1
    where name = $1 and revision = $5 and $5 > 0
    returning 1
), told as (
    select pg_notify('{channel}', '')
    where $5 = 0 or $3 <= extract(epoch from statement_timestamp()) or exists (
        select from known k where $3 < k.look_at and k.look_at > extract(epoch from statement_timestamp()) + 5
    )
)
select (select count(*) from created) + (select count(*) from changed), (select count(*) from told)
