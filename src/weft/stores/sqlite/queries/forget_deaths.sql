-- All but the last so many.
delete from deaths where session <= (select session from deaths order by session desc limit 1 offset ?)
