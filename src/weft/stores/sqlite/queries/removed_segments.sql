-- Some segments of a run that begin before an event, but not its last one.
delete from segments where place in (
    select place from segments
    where place between :run << 32 and (:run << 32) + :first - 1
      and place < (select max(place) from segments where place between :run << 32 and (:run << 32) + 4294967295)
    order by place
    limit :most
)
