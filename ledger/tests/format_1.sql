-- An empty ledger of format 1, as the last release with that format made it.
PRAGMA application_id = 1131364684;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE record (
    sequence INTEGER PRIMARY KEY, -- 1, 2, 3, ... without gaps
    body TEXT NOT NULL,           -- the record as JSON
    hash BLOB NOT NULL            -- SHA-256 of previous hash, sequence (8 bytes), length of body (8 bytes), body
) STRICT;
INSERT INTO meta (key, value) VALUES
    ('format_version', '1'),
    ('ledger_id', '0123456789abcdef0123456789abcdef'),
    ('node_kind', 'nrm'),
    ('node_name', 'north'),
    ('created_at', '2026-11-26T00:00:00.000Z');
