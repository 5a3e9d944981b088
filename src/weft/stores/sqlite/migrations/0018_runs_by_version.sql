-- How many runs each version of a workflow has.  Touched when a run is created and when its version changes, by no other
-- change of its status.
create index runs_by_version on runs (workflow, version);
