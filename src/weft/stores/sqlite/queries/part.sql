insert into parts (place, body) values (?, ?)
