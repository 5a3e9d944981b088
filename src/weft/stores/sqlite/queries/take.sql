-- A message has become a part of the log of its run.
delete from inbox where number = ? and run = ?
