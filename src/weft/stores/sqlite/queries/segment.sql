insert into segments (place, count, body) values (?, ?, ?)
