-- Renew a lease, also if its row was removed.  Returns the number of the last message for a run of this owner, what is
-- wanted of it, the version of the schema, and how many runs the other workers that serve the same have and could have.
with renewed as (
    insert into {schema}.weft_workers as w (
        key, expires_at, pid, born, machine, name, channel, worker, state, wanted, serves, active, concurrency
    )
    values (
        $1, clock_timestamp() + $2::double precision * interval '1 second', $3, $4, $5, $6, $7, $8, $9::text, $10, $11,
        $12::integer, $13::integer
    )
    on conflict (key) do update
    set expires_at = excluded.expires_at, state = excluded.state, active = excluded.active,
        concurrency = excluded.concurrency
    returning w.wanted
), peers as (
    select array_agg(w.active order by w.key) as active, array_agg(w.concurrency order by w.key) as concurrency
    from {schema}.weft_workers w
    where $11::text <> '' and w.serves = $11 and w.key <> $1 and w.state = 'working' and w.ended_at is null
      and w.expires_at > statement_timestamp()
)
select (
    select coalesce(max(i.number), 0)
    from {schema}.weft_queue q
    join {schema}.weft_inbox i on i.run = q.run
    where q.owner = $1 and q.wake > 0
), (select wanted from renewed), (select max(version) from {schema}.weft_schema), p.active, p.concurrency
from peers p
