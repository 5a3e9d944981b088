-- A large value that a run does not need any more is to be removed: later, in slices.
update large set session = 0 where key = (select large from facts where run = ? and hash = ?)
