-- How often segments were removed (commits.py), counted by the database: a process that has had the file open since
-- before there was anything to count does so too.  Logs are removed whole, so the first segment of each is enough.
create trigger removals after delete on segments when old.place & 4294967295 = 1
begin
    update store set generation = generation + 1;
end;
