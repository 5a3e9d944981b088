-- Schedules: a row each, changed by compare-and-set on its revision.  See docs/adr/0046.
create table {schema}.weft_schedules (
    look_at double precision not null,
    revision bigint not null,
    name text collate "C" primary key,
    workflow text collate "C" not null,
    body bytea not null
);
create index weft_schedules_by_time on {schema}.weft_schedules (look_at);
