-- Once per run.
insert into facts (run, hash, body) values (?, ?, ?) on conflict (run, hash) do nothing
