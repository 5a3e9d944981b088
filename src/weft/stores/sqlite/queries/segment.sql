insert into segments (place, count, chain, at, body) values (?, ?, ?, ?, ?)
