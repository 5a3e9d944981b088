-- A large value of a run, and the parts that it is in, if it is.
select f.body, f.large, l.length, p.place & 4294967295, p.body
from facts f
left join large l on l.key = f.large
left join parts p on p.place between f.large << 32 and (f.large << 32) + 4294967295
where f.run = ? and f.hash = ?
order by p.place
