-- Give a run up, if it is ours.
update runs set owner = null where id = ? and owner = ?
