select exists (select from {schema}.weft_runs) or exists (select from {schema}.weft_schedules)
