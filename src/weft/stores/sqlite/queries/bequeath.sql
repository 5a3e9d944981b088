-- The messages of a run are for the one that continues it.
update inbox set run = :key where run = (select key from runs where id = :run)
