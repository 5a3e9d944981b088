-- When a run has to be woken.
insert into wakes (run, at) values (?, ?) on conflict (run) do update set at = excluded.at
