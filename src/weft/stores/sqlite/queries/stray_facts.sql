-- Keys that large values are stored under and no run has.
select distinct run from facts f where not exists (select 1 from runs r where r.key = f.run) limit ?
