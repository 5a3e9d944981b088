-- One index for pages and counts (ADR 62), in place of two that a run enters as it begins, leaves and enters again as it
-- ends.  A list of all workflows is merged from a part for each of them.
drop index runs_by_status;
drop index runs_by_workflow;
create index runs_by_state on runs (status, failures is not 0, workflow, created_at, id);
