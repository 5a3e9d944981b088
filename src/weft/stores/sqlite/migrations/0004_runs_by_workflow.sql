-- Pages and counts of one workflow.  Like the index by status it is touched by an append that says a status.
create index runs_by_workflow on runs (workflow, status, created_at, id);
