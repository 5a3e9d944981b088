-- A new run, unless its id is taken.
insert into runs (key, id, workflow, version, status, reason, chain, epoch, created_at, updated_at, owner)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do nothing
