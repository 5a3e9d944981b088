delete from {schema}.weft_schedules where name = $1 returning 1
