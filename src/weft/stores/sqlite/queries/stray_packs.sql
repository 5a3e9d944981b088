-- Keys that packs are stored under and no run has.
select distinct place >> 32 from packs p where not exists (select 1 from runs r where r.key = p.place >> 32) limit ?
