-- The last pack of a run.
select place & 4294967295, count, body from packs
where place between :run << 32 and (:run << 32) + 4294967295
order by place desc
limit 1
