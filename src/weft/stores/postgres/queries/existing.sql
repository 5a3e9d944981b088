select id from {schema}.weft_runs where id = any($1::text[])
