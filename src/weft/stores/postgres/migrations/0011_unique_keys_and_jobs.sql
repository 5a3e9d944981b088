-- Unique keys of runs: of the unfinished runs of a workflow, one has a certain key.  See docs/adr/0056.
alter table {schema}.weft_runs add column unique_key text collate "C";
create unique index weft_runs_by_unique_key on {schema}.weft_runs (workflow, unique_key)
where unique_key is not null and status not in ('completed', 'failed', 'cancelled');

-- Jobs: an operation on many runs, a row each, changed by compare-and-set on its revision.  See docs/adr/0055.
create table {schema}.weft_jobs (
    look_at double precision not null,
    created_at double precision not null,
    revision bigint not null,
    id text collate "C" primary key,
    body bytea not null
);
create index weft_jobs_by_time on {schema}.weft_jobs (look_at) where look_at < 'infinity';
create index weft_jobs_by_age on {schema}.weft_jobs (created_at, id);
