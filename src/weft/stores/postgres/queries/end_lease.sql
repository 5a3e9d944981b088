-- The owner is closed: its runs are free, and it did not die.
with ended as (
    update {schema}.weft_workers set ended_at = clock_timestamp() where key = $1
)
select pg_notify('{channel}', '')
