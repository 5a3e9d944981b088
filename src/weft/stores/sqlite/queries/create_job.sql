-- A new job, unless its id is taken.
insert into jobs (id, created_at, look_at, revision, body) values (:id, :created_at, :look_at, 1, :body)
on conflict (id) do nothing
