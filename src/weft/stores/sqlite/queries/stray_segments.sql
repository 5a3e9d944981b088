-- Keys that segments are stored under and no run has; a look at every segment, without its body.
select distinct place >> 32 from segments s where not exists (select 1 from runs r where r.key = s.place >> 32) limit ?
