select hash, body from {schema}.weft_definitions where hash = any($1::bytea[])
