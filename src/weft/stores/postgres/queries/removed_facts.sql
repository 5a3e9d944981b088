delete from {schema}.weft_facts where run = $1 and hash = any($2::bytea[])
