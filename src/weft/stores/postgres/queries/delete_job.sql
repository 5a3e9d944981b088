delete from {schema}.weft_jobs where id = $1 returning 1
