-- Buyers who log in over HTTP, and the tokens of operators. Orders of simulated buyers name users that are not here, so
-- no order refers to this table.

-- AUTOINCREMENT: orders and sessions carry the number of a user, so it must never be given twice. Users without a phone
-- were made for load tests.
CREATE TABLE tb_user (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    phone       TEXT    UNIQUE,
    nick_name   TEXT    NOT NULL,
    icon        TEXT    NOT NULL DEFAULT '',
    create_time INTEGER NOT NULL,
    update_time INTEGER NOT NULL
) STRICT;

-- A token is stored as its SHA-256 digest: who reads this table cannot use it.
CREATE TABLE tb_token (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    digest      TEXT    NOT NULL UNIQUE,
    role        TEXT    NOT NULL CHECK (role IN ('operator')),
    name        TEXT    NOT NULL,
    create_time INTEGER NOT NULL,
    revoke_time INTEGER
) STRICT;
