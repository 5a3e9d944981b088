-- For `weft doctor`: how many connections clients have, how many this role may have, and settings that decide what a
-- commit is worth.
select (select count(*) from pg_stat_activity where backend_type = 'client backend'),
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
       current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_version_num')::integer
