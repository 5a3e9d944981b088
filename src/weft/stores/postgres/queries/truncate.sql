-- The first event that a run has left, and the link before it; what stands before it is not read from now on.
update {schema}.weft_runs set first = $2, link = $3 where key = $1
