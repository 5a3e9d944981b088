-- The run that continues another one.
select s.successor from runs r join successors s on s.run = r.key where r.id = ?
