-- A value that is there in parts; once per run.
insert into facts (run, hash, body, large) values (?, ?, x'', ?) on conflict (run, hash) do nothing
