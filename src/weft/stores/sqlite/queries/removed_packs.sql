-- Packs of a run that end before an event.
delete from packs
where place between :run << 32 and (:run << 32) + :first - 1 and place + count <= (:run << 32) + :first
