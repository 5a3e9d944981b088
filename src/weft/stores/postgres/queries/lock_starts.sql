-- Wait for the statements that create runs or schedules, and let none begin before this transaction has ended.
lock table {schema}.weft_runs, {schema}.weft_schedules in share row exclusive mode
