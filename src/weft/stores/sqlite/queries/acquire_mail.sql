-- The messages of a run are those of its new owner.
update mail set owner = ? where run = ?
