-- Say what changed besides the log, if the run is in the right epoch, its head is the one that was meant, and so is
-- its last link, if that is said.
-- The row is written anyway, so it also keeps where the log was then: what is cut off behind that is noticed.
update runs
set updated_at = v.column5,
    chain = coalesce(
        (select s.chain from segments s
         where s.place between v.column1 << 32 and (v.column1 << 32) + 4294967295
         order by s.place desc limit 1),
        runs.chain),
    status = coalesce(v.column6, status),
    reason = case when v.column6 is null then reason else v.column7 end,
    workflow = coalesce(v.column8, workflow),
    version = coalesce(v.column9, version),
    owner = case when v.column10 then null else owner end,
    failures = case when v.column6 is null then failures else v.column12 end,
    dead_letters = case when v.column6 is null then dead_letters else v.column13 end,
    finished_at = case when v.column6 is null then finished_at else v.column14 end,
    outcome = case when v.column6 is null then outcome else v.column15 end
from (values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) as v
where runs.key = v.column1 and runs.epoch = v.column2 and runs.id = v.column3
  and v.column4 = coalesce(
    (select iif(v.column11 is null or v.column11 = s.chain, (s.place & 4294967295) + s.count - 1, -1) from segments s
     where s.place between v.column1 << 32 and (v.column1 << 32) + 4294967295
     order by s.place desc limit 1),
    iif(v.column11 is null or v.column11 = runs.chain, 0, -1)
)
