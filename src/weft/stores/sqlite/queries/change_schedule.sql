update schedules
set workflow = :workflow, look_at = :look_at, body = :body, revision = revision + 1
where name = :name and revision = :revision
