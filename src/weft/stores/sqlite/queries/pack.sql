insert or replace into packs (place, count, body) values (?, ?, ?)
