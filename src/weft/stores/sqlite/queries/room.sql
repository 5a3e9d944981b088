-- Written to the write-ahead log, and rolled back: it leaves nothing but a longer file.
insert into definitions (hash, body) values (x'', zeroblob(?))
