insert into sessions (token, host, pid) values (?, ?, ?)
