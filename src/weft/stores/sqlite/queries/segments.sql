-- Whole segments, from the one that holds the event after a position; the last one, if there is no such event.
select place & 4294967295, count, body
from segments
where place between
          coalesce((select max(place) from segments where place between (:run << 32) and (:run << 32) + :position + 1),
                   :run << 32)
          and (:run << 32) + 4294967295
order by place
