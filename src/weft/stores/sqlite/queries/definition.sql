-- Once per store.
insert into definitions (hash, body) values (?, ?) on conflict (hash) do nothing
