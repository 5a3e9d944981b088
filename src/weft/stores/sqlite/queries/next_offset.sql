-- The key of a run, and where the next chunk of a stream of it begins.
select
    r.key,
    coalesce((select start + items from chunks where run = r.key and stream = ? order by start desc limit 1), 0)
from runs r
where r.id = ?
