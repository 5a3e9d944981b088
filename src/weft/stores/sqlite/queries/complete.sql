-- Say that a run has completed, that nothing has failed, and that it has no owner: as say.sql, with less to bind.  Most
-- runs end like this.
update runs
set updated_at = v.column4,
    chain = v.column5,
    status = 'completed',
    reason = '',
    owner = null,
    failures = 0,
    dead_letters = 0,
    finished_at = v.column4,
    outcome = v.column6
from (values (?, ?, ?, ?, ?, ?)) as v
where runs.key = v.column1 and runs.epoch = v.column2 and runs.id = v.column3
