-- Say how a run is, right after its events were added: that has compared the head and the link, so nothing is looked up.
-- The row is written anyway, so it also keeps where the log was then: what is cut off behind that is noticed.
update runs
set updated_at = v.column4,
    chain = v.column5,
    status = v.column6,
    reason = v.column7,
    owner = iif(v.column8, null, owner),
    failures = v.column9,
    dead_letters = v.column10,
    finished_at = v.column11,
    outcome = v.column12
from (values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) as v
where runs.key = v.column1 and runs.epoch = v.column2 and runs.id = v.column3
