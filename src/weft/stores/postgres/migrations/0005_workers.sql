-- What a worker says of itself with each renewal of its lease, and what is wanted of it.  See docs/adr/0045.

alter table {schema}.weft_workers
    add column worker text collate "C" not null default '',
    add column state text collate "C" not null default '',
    add column wanted text collate "C" not null default '',
    add column serves text collate "C" not null default '',
    add column active integer not null default 0,
    add column concurrency integer not null default 0;
