-- Whole segments, from the one that holds the event after a position.
select place & 4294967295, count, body
from segments
where place between
          coalesce((select max(place) from segments where place between (:run << 32) and (:run << 32) + :position + 1),
                   :run << 32)
          and (:run << 32) + 4294967295
  and (place & 4294967295) + count - 1 > :position
order by place
