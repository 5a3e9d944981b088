-- Put a row of a schedule in place of the one with its revision, or create it if that is 0.  Returns 1 if it is written.
-- $6 is the fence that its client knows: if this database has another one, it is not created.
-- Workers hear of a new one, and of one that is due already.
with created as (
    insert into {schema}.weft_schedules (name, workflow, look_at, body, revision)
    select $1, $2, $3, $4, 1
    where $5::bigint = 0 and ($6::text is null or $6 = (select s.fence from {schema}.weft_shard s))
    on conflict (name) do nothing
    returning 1
), changed as (
    update {schema}.weft_schedules
    set workflow = $2::text, look_at = $3::double precision, body = $4::bytea, revision = revision + 1
    where name = $1::text and revision = $5 and $5 > 0
    returning 1
), told as (
    select pg_notify('{channel}', '') where $5 = 0 or $3 <= extract(epoch from statement_timestamp())
)
select (select count(*) from created) + (select count(*) from changed), (select count(*) from told)
