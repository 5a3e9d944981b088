-- What came of a run, like its status: written by an append that says one.  The outcome is last, since it may be long.
alter table runs add column failures integer not null default 0;
alter table runs add column dead_letters integer not null default 0;
alter table runs add column finished_at real;
alter table runs add column outcome blob not null default x'';

update runs set finished_at = updated_at where status in ('completed', 'failed', 'cancelled');

-- Pages and counts of the runs with failures, and of those without.  A number that is damaged counts as a failure.
drop index runs_by_status;
drop index runs_by_workflow;
create index runs_by_status on runs (status, failures is not 0, created_at, id);
create index runs_by_workflow on runs (workflow, status, failures is not 0, created_at, id);
