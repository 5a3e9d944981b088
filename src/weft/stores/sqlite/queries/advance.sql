-- Move a head, if it stands where it should.  This is the hot one.
update runs
set head = v.column1, chain = v.column2, updated_at = v.column3
from (values (?, ?, ?, ?, ?, ?, ?)) as v
where runs.key = v.column4 and runs.head = v.column5 and runs.epoch = v.column6 and runs.id = v.column7
