-- Hints for the processes that listen to a channel.
select pg_notify($1, payload) from unnest($2::text[]) as payload
