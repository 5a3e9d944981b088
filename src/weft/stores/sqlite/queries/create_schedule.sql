insert into schedules (name, workflow, look_at, body, revision)
values (:name, :workflow, :look_at, :body, 1)
on conflict (name) do nothing
