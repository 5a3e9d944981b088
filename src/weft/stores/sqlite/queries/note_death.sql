insert into deaths (session) values (?) on conflict (session) do nothing
