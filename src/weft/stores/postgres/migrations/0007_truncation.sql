-- Logs that were truncated: the first event that is left, and the link before it.  What stands before it and has not been
-- removed yet is not read.  See docs/adr/0044.
alter table {schema}.weft_runs
    add column first bigint not null default 1,
    add column link bytea not null default '';
