-- Whole segments, from the one that holds the first event to the one that holds the last.
select place & 4294967295, count, body
from segments
where place between
          coalesce((select max(place) from segments where place between (:run << 32) and (:run << 32) + :first),
                   :run << 32)
          and (:run << 32) + :last
order by place
