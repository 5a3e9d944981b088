-- The progress of a run, in place of what was there.
insert or replace into progress (run, body) select key, :body from runs where id = :run
