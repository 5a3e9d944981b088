-- The roles that were granted rights on the runs, each with whether it may write them.
select a.rolname, bool_or(g.privilege_type = 'INSERT')
from pg_class c
cross join aclexplode(c.relacl) g
join pg_roles a on a.oid = g.grantee
where c.oid = to_regclass($1) and g.grantee <> c.relowner
group by a.rolname
order by a.rolname
