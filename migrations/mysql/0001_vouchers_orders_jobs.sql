-- Vouchers, their sales, their orders, locks, jobs, and who did what. Times are milliseconds since the
-- Unix epoch, UTC. Once released, this file never changes: add the next number instead.
--
-- Every statement can be repeated: MySQL commits each of them by itself, so a program that was killed
-- half-way leaves some of them done, and the next one does them all again.
--
-- Numbers are signed: an order id has 63 bits, and the program, SQLite and PostgreSQL know no others.
-- Names and words compare byte by byte, trailing spaces too. MariaDB and MySQL call that differently,
-- and each reads only the comment that is meant for it.

-- Redis keys carry the voucher's number; AUTO_INCREMENT never gives one twice.
CREATE TABLE IF NOT EXISTS tb_voucher (
    id           BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    shop_id      BIGINT,
    title        VARCHAR(1000) NOT NULL,
    sub_title    VARCHAR(1000),
    rules        TEXT,
    pay_value    BIGINT        NOT NULL DEFAULT 0,
    actual_value BIGINT        NOT NULL DEFAULT 0,
    type         TINYINT       NOT NULL DEFAULT 0 CHECK (type IN (0, 1)),      -- 0 ordinary, 1 flash sale
    status       TINYINT       NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 on, 2 off, 3 expired
    create_time  BIGINT        NOT NULL,
    update_time  BIGINT        NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

CREATE TABLE IF NOT EXISTS tb_seckill_voucher (
    voucher_id    BIGINT      NOT NULL PRIMARY KEY,
    initial_stock BIGINT      NOT NULL CHECK (initial_stock >= 0),
    stock         BIGINT      NOT NULL CHECK (stock >= 0),
    begin_time    BIGINT,
    end_time      BIGINT,
    state         VARCHAR(16) NOT NULL CHECK (state IN ('running', 'paused', 'ended')),
    version       BIGINT      NOT NULL DEFAULT 1,
    -- Orders that one user may hold; each takes a place of its own, from 1.
    user_limit    TINYINT     NOT NULL DEFAULT 1 CHECK (user_limit BETWEEN 1 AND 20),
    create_time   BIGINT      NOT NULL,
    update_time   BIGINT      NOT NULL,
    -- When the ended sale left Redis; NULL while it is there.
    archive_time  BIGINT,
    CONSTRAINT ck_stock CHECK (stock <= initial_stock),
    CONSTRAINT fk_sale_voucher FOREIGN KEY (voucher_id) REFERENCES tb_voucher (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

-- status: 1 unpaid, 2 paid, 3 used, 4 cancelled, 5 closed as overdue.
CREATE TABLE IF NOT EXISTS tb_voucher_order (
    id          BIGINT  NOT NULL PRIMARY KEY,
    user_id     BIGINT  NOT NULL,
    voucher_id  BIGINT  NOT NULL,
    place       TINYINT NOT NULL DEFAULT 1 CHECK (place BETWEEN 1 AND 20),
    pay_type    TINYINT NOT NULL DEFAULT 1,
    status      TINYINT NOT NULL DEFAULT 1 CHECK (status BETWEEN 1 AND 5),
    create_time BIGINT  NOT NULL,
    pay_time    BIGINT,
    use_time    BIGINT,
    refund_time BIGINT,
    close_time  BIGINT,
    update_time BIGINT  NOT NULL,
    -- There are no partial indexes here; but a NULL is unlike any other, so a closed order leaves the
    -- unique one, and the buyer may come again.
    live        TINYINT GENERATED ALWAYS AS (CASE WHEN status IN (4, 5) THEN NULL ELSE 1 END) STORED,
    -- One live order a buyer, voucher and place. Also the way to the orders of a user: vouchers are few, and
    -- an index of their own would cost each order as much as this one does.
    UNIQUE KEY uk_one_live_order (voucher_id, user_id, place, live),
    -- Live orders by id, a page at a time; closed ones likewise.
    KEY idx_live_order (voucher_id, live, id),
    -- Unpaid orders by age: what the closing job reads, in pages.
    KEY idx_unpaid_order (status, create_time, id),
    CONSTRAINT fk_order_sale FOREIGN KEY (voucher_id) REFERENCES tb_seckill_voucher (voucher_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Closed orders whose piece and place Redis is told of; kept a while after, in case Redis forgets.
CREATE TABLE IF NOT EXISTS tb_give_back (
    order_id   BIGINT  NOT NULL PRIMARY KEY,
    user_id    BIGINT  NOT NULL,
    voucher_id BIGINT  NOT NULL,
    place      TINYINT NOT NULL DEFAULT 1,
    closed     BIGINT  NOT NULL,
    given      BIGINT,
    KEY idx_give_back_given (given, order_id),
    KEY idx_give_back_voucher (voucher_id, order_id),
    CONSTRAINT fk_give_back_order FOREIGN KEY (order_id) REFERENCES tb_voucher_order (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS tb_audit_log (
    id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at       BIGINT NOT NULL,
    operator TEXT   NOT NULL,
    node     TEXT   NOT NULL,
    act      TEXT   NOT NULL,
    subject  TEXT   NOT NULL,
    reason   TEXT,
    result   TEXT   NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

-- The highest fencing token that has written under a lock's name; lower ones are refused.
CREATE TABLE IF NOT EXISTS tb_lock_fence (
    name        VARCHAR(255) NOT NULL PRIMARY KEY,
    token       BIGINT       NOT NULL,
    writes      BIGINT       NOT NULL DEFAULT 0,
    update_time BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

CREATE TABLE IF NOT EXISTS tb_job (
    name        VARCHAR(255) NOT NULL PRIMARY KEY,
    paused      BOOLEAN      NOT NULL DEFAULT FALSE,
    update_time BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

-- One row a due run; the unique index is what makes each of them happen on one node once.
CREATE TABLE IF NOT EXISTS tb_job_run (
    id      BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    job     VARCHAR(255) NOT NULL,
    due     BIGINT       NOT NULL,
    cause   VARCHAR(16)  NOT NULL CHECK (cause IN ('due', 'missed', 'operator')),
    node    TEXT         NOT NULL,
    token   BIGINT       NOT NULL,
    started BIGINT       NOT NULL,
    took_ms BIGINT,
    outcome VARCHAR(16)  NOT NULL DEFAULT 'running'
            CHECK (outcome IN ('running', 'done', 'failed', 'cancelled', 'lost')),
    detail  TEXT,
    `rows`  BIGINT,
    UNIQUE KEY uk_job_due (job, due)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;

-- What every node has to agree on.
CREATE TABLE IF NOT EXISTS tb_setting (
    name  VARCHAR(255) NOT NULL PRIMARY KEY,
    value TEXT         NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*M! COLLATE = utf8mb4_nopad_bin */ /*!80000 COLLATE = utf8mb4_0900_bin */;
