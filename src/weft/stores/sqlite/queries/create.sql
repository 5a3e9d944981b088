-- A new run, unless its id is taken.
insert into runs (key, id, workflow, version, status, reason, chain, epoch, created_at, updated_at, owner,
                  failures, dead_letters, finished_at, outcome, unique_key)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do nothing
