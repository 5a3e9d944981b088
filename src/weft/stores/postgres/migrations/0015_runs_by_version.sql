-- How many runs each version of a workflow has.  Equal entries are one list in this index, of six bytes for each run, and a
-- change of a status need not touch it.
create index weft_runs_by_version on {schema}.weft_runs (workflow, version);
