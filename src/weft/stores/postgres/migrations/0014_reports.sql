-- How far a step has come that another worker runs, as it last reported; its owner reads it (docs/adr/0053).
alter table {schema}.weft_tasks add column report bytea;
