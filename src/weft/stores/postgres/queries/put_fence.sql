-- Put a fence ($1) in place of the one that is there, if that is one of $2.  Returns true if it was.
update {schema}.weft_shard set fence = $1 where fence = any($2::text[]) returning true
