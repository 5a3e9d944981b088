-- Add events, if the run is in their epoch, its head is right before them, and it ends in the link that they follow.
-- This is the hot one: the place that they must have is read from the last segment, together with its link.
insert into segments (place, count, chain, at, body)
select v.column1, v.column2, v.column3, v.column4, v.column5
from (values (?, ?, ?, ?, ?, ?, ?, ?, ?)) as v
cross join runs r on r.key = v.column6 and r.epoch = v.column7 and r.id = v.column8
where v.column1 = coalesce(
    (select iif(v.column9 is null or v.column9 = chain, place + count, -1) from segments
     where place between v.column6 << 32 and (v.column6 << 32) + 4294967295
     order by place desc limit 1),
    iif(v.column9 is null or v.column9 = r.chain, (v.column6 << 32) + 1, -1)
)
