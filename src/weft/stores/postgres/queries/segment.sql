insert into {schema}.weft_events (run, first, at, count, chain, body) values ($1, $2, $3, $4, $5, $6)
