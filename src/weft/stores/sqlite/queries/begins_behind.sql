-- Whether the log of a run was truncated and begins with this event, behind this link.
select exists (select 1 from truncations where run = ? and first = ? and link = ?)
