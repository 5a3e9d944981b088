-- The progress of a run that was last written.
select p.body from runs r join progress p on p.run = r.key where r.id = ?
