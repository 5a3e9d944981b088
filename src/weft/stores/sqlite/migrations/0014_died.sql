-- Of each run, the epoch of the first owner that died since its last event, and the head at that time.  What an owner
-- learns of the one before is not lost if it leaves without a word.
alter table runs add column died_epoch integer;
alter table runs add column died_head integer;
