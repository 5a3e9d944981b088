-- The owner is closed: its runs are free, and it did not die.
update {schema}.weft_workers set ended_at = clock_timestamp() where key = $1
