-- Renew a lease, also if its row was removed.  Returns the number of the last message for a run of this owner.
with renewed as (
    insert into {schema}.weft_workers as w (key, expires_at, pid, born, machine, name, channel)
    values ($1, clock_timestamp() + $2::double precision * interval '1 second', $3, $4, $5, $6, $7)
    on conflict (key) do update set expires_at = excluded.expires_at
)
select coalesce(max(i.number), 0)
from {schema}.weft_queue q
join {schema}.weft_inbox i on i.run = q.run
where q.owner = $1 and q.wake > 0
