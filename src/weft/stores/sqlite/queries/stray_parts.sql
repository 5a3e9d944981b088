-- Keys that parts are stored under and no large value has; a look at every part, without its body.
select distinct place >> 32 from parts p where not exists (select 1 from large l where l.key = p.place >> 32) limit ?
