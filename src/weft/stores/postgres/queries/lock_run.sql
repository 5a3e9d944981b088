select key, epoch from {schema}.weft_runs where id = $1 for update
