-- It belongs to a run from now on, unless that had the same value already.
update large set session = null
where key = ? and exists (select 1 from facts where run = ? and hash = ? and large = large.key)
