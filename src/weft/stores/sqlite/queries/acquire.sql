-- A new owner, a new epoch; and if the one before died, its epoch and the head at that time, unless one had died before
-- it and the head was the same.
update runs
set owner = v.column1,
    epoch = epoch + 1,
    died_epoch = iif(v.column3 and died_head is not v.column4, epoch, died_epoch),
    died_head = iif(v.column3, v.column4, died_head)
from (values (?, ?, ?, ?)) as v
where runs.key = v.column2
