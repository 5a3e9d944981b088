-- Runs in one status with who has taken them, oldest first; whether that session is alive is not known here.
select created_at, id, key, owner from runs where status = ? order by created_at, id
