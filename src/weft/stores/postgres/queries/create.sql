-- A run that is saved as a whole, owned by the store that saves it.
with created as (
    insert into {schema}.weft_runs (
        id, workflow, version, status, reason, failures, dead_letters, outcome, head, chain, updated_at, finished_at,
        created_at, epoch, queue
    )
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $16)
    on conflict (id) do nothing
    returning key, workflow, version
), entered as (
    insert into {schema}.weft_queue (run, owner, scheduled_at, wake, queue, program)
    select r.key, $15::bigint, 'infinity', 0, $16::text, {program} from created r
)
select key from created
