-- For `weft doctor --repair`: delete the rows of one table whose run does not exist.  The table and the column
-- that names the run are written into the text.
with gone as (
    delete from {schema}.{table} s where not exists (select from {schema}.weft_runs r where r.{column} = s.run) returning s.run
)
select count(*) from gone
