-- Lock runs that others will continue, before anything is written: senders that have begun end first, and later ones
-- wait, and then find the run that continues it.
select key from {schema}.weft_runs where id = any($1::text[]) order by id for update
