-- A value that is going to be written in parts.
insert into large (session, length) values (?, ?)
