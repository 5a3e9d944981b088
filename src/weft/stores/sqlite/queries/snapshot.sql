-- In place of the one before.
insert into snapshots (run, position, body) values (?, ?, ?)
on conflict (run) do update set position = excluded.position, body = excluded.body
