-- The snapshot of a run; nulls if it has none.
select s.position, s.body from runs r left join snapshots s on s.run = r.key where r.id = ?
