select exists (select 1 from segments where place = ? and count = ? and body = ?)
