-- A new owner, a new epoch.
update runs set owner = ?, epoch = epoch + 1 where key = ?
