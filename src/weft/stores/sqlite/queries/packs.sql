-- The packs of a run, from the one that holds the event after a position.
select place & 4294967295, count, body
from packs
where place between
          coalesce((select max(place) from packs where place between (:run << 32) and (:run << 32) + :position + 1),
                   :run << 32)
          and (:run << 32) + :last
  and place + count > (:run << 32) + :position + 1
order by place
