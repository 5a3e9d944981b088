-- The first event of a run that is left, and the link before it.
insert into truncations (run, first, link) values (?, ?, ?)
on conflict (run) do update set first = excluded.first, link = excluded.link
