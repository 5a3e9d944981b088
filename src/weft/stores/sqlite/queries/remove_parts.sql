-- Some parts of a large value, the first ones.
delete from parts where place in (
    select place from parts where place between :large << 32 and (:large << 32) + 4294967295 order by place limit :most
)
