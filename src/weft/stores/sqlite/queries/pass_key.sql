-- The run that continues another one has the unique key of that one.
update runs set unique_key = (select o.unique_key from runs o where o.id = :run) where key = :key
