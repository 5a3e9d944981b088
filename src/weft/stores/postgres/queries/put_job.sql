-- Put a row of a job in place of the one with its revision, or create it if that is 0.  Returns 1 if it is written.
-- Workers hear of one that is due already.
with created as (
    insert into {schema}.weft_jobs (id, created_at, look_at, body, revision)
    select $1, $2, $3, $4, 1
    where $5::bigint = 0
    on conflict (id) do nothing
    returning 1
), changed as (
    update {schema}.weft_jobs
    set look_at = $3::double precision, body = $4::bytea, revision = revision + 1
    where id = $1::text and revision = $5 and $5 > 0
    returning 1
), told as (
    select pg_notify('{channel}', 'jobs') where $3 <= extract(epoch from statement_timestamp())
)
select (select count(*) from created) + (select count(*) from changed), (select count(*) from told)
