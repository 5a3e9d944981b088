-- Give all places of an owner back.
delete from {schema}.weft_limit_places where owner = $1
