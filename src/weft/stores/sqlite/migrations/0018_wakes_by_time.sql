-- The waiting runs in the order in which they are woken.  Runs that never wait for a time have no row in this table.
create index wakes_by_time on wakes (at);
