-- Move a head, if it stands where it should, and say what else changed.
update runs
set head = v.column1, chain = v.column2, updated_at = v.column3,
    status = coalesce(v.column8, status),
    reason = case when v.column8 is null then reason else v.column9 end,
    workflow = coalesce(v.column10, workflow),
    version = coalesce(v.column11, version),
    owner = case when v.column12 then null else owner end
from (values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) as v
where runs.key = v.column4 and runs.head = v.column5 and runs.epoch = v.column6 and runs.id = v.column7
