-- Where a run stands, to say why an append was refused.
select key, head, epoch, owner from runs where id = ?
