-- Buyers who log in over HTTP, and the tokens of operators. Orders of simulated buyers name users that are not here, so
-- no order refers to this table.
--
-- Every statement can be repeated.

-- Orders and sessions carry the number of a user; AUTO_INCREMENT never gives one twice. Users without a phone were made
-- for load tests.
CREATE TABLE IF NOT EXISTS tb_user (
    id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    phone       VARCHAR(32),
    nick_name   VARCHAR(255) NOT NULL,
    icon        VARCHAR(255) NOT NULL DEFAULT '',
    create_time BIGINT       NOT NULL,
    update_time BIGINT       NOT NULL,
    UNIQUE KEY uk_user_phone (phone)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

-- A token is stored as its SHA-256 digest: who reads this table cannot use it.
CREATE TABLE IF NOT EXISTS tb_token (
    id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    digest      VARCHAR(64)  NOT NULL,
    role        VARCHAR(16)  NOT NULL CHECK (role IN ('operator')),
    name        VARCHAR(255) NOT NULL,
    create_time BIGINT       NOT NULL,
    revoke_time BIGINT,
    UNIQUE KEY uk_token_digest (digest)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;
