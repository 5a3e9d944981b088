-- Where a chunk is that may be stored already.
select start from chunks where run = ? and stream = ? and execution = ? and place = ?
