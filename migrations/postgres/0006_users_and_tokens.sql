-- Buyers who log in over HTTP, and the tokens of operators. Orders of simulated buyers name users that are not here, so
-- no order refers to this table.

-- Orders and sessions carry the number of a user; a sequence never gives one twice. Users without a phone were made for
-- load tests.
CREATE TABLE tb_user (
    id          BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    phone       TEXT COLLATE "C" UNIQUE,
    nick_name   TEXT   NOT NULL,
    icon        TEXT   NOT NULL DEFAULT '',
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);

-- A token is stored as its SHA-256 digest: who reads this table cannot use it.
CREATE TABLE tb_token (
    id          BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    digest      TEXT COLLATE "C" NOT NULL UNIQUE,
    role        TEXT   NOT NULL CHECK (role IN ('operator')),
    name        TEXT   NOT NULL,
    create_time BIGINT NOT NULL,
    revoke_time BIGINT
);
