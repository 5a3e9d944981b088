-- What a saved log makes of the record of a run that was there.
update runs
set workflow = ?, version = ?, status = ?, reason = ?, chain = ?, updated_at = ?,
    failures = ?, dead_letters = ?, finished_at = ?, outcome = ?
where key = ?
