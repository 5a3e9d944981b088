select p.body from {schema}.weft_runs r join {schema}.weft_progress p on p.run = r.key where r.id = $1
