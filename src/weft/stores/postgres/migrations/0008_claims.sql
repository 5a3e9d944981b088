-- Of each run in the queue, the claim that took it, and of each worker, up to which claim is known what it took: see
-- docs/adr/0050.  Of each run, the epoch of the first owner that died since its last event, and the head at that time:
-- see docs/adr/0028.

alter table {schema}.weft_queue add column claim bigint;
alter table {schema}.weft_workers add column settled bigint not null default 0;
alter table {schema}.weft_runs add column died_epoch bigint, add column died_head bigint;
