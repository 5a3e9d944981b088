-- Sessions that died without being closed (ownership.py): a run that names one of them was not released.
-- The last thousand; a run that names an older one counts as released.
create table deaths (
    session integer primary key
);
