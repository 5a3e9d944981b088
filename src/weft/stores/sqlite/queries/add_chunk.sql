-- A chunk of a stream.
insert into chunks (run, stream, start, items, component, attempt, execution, place, at, body)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
