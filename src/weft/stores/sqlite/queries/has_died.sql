select exists (select 1 from deaths where session = ?)
