-- Schedules (ADR 46): a row each, changed by compare-and-set on its revision.
create table schedules (
    name     text    primary key,
    workflow text    not null,
    look_at  real    not null,  -- when a process has to look at it
    revision integer not null,
    body     blob    not null
) without rowid;
