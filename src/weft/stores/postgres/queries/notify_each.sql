-- Hints for the processes that listen to several channels.
select pg_notify(channel, payload) from unnest($1::text[], $2::text[]) as h (channel, payload)
