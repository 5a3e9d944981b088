-- The first segments of a run that are not in a pack.
select place & 4294967295, count, chain, at, body from segments
where place between :run << 32 and (:run << 32) + 4294967295
order by place
limit :limit
