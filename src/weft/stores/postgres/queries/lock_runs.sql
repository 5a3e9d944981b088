-- Lock runs before they are deleted: the next statement sees what others did to them before that.
select key from {schema}.weft_runs where id = any($1::text[]) order by id for update
