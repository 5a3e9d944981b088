select exists (select 1 from segments where place = (:run << 32) + :first)
