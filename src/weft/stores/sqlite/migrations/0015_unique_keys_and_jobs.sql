-- Unique keys of runs: of the unfinished runs of a workflow, one has a certain key.
alter table runs add column unique_key text;
create unique index runs_by_unique_key on runs (workflow, unique_key)
where unique_key is not null and status not in ('completed', 'failed', 'cancelled');

-- Jobs: an operation on many runs, a row each, changed by compare-and-set on its revision.
create table jobs (
    id         text    primary key not null,
    created_at real    not null,
    look_at    real    not null,
    revision   integer not null,
    body       blob    not null
);
