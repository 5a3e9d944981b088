-- A message for a run; nothing, if there is no such run.
insert into inbox (run, kind, at, body) select key, ?, ?, ? from runs where id = ?
