-- The large values of a run that is forgotten are to be removed: later, in slices.
update large set session = 0 where key in (select large from facts where run = ? and large is not null)
