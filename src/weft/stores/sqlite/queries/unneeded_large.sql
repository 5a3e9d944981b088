-- A large value that nobody needs: of a run that was forgotten, of a session that is gone, or of an append of this
-- session that was refused or failed.
select key from large
where session is not null and (session = ? or session not in (select key from sessions))
limit 1
