-- Put the row of a job in place of the one with this revision.
update jobs set look_at = :look_at, body = :body, revision = revision + 1
where id = :id and revision = :revision
