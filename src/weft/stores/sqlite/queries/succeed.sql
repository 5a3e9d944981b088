-- Note which run continues another one.
insert into successors (run, successor) select key, :successor from runs where id = :run
on conflict (run) do update set successor = excluded.successor
