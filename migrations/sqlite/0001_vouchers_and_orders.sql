-- Vouchers, their sales, their orders, and who did what. Times are milliseconds since the Unix
-- epoch, UTC. Once released, this file never changes: add the next number instead.

-- AUTOINCREMENT: Redis keys carry the voucher's number, so it must never be given twice.
CREATE TABLE tb_voucher (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    shop_id      INTEGER,
    title        TEXT    NOT NULL,
    sub_title    TEXT,
    rules        TEXT,
    pay_value    INTEGER NOT NULL DEFAULT 0,
    actual_value INTEGER NOT NULL DEFAULT 0,
    type         INTEGER NOT NULL DEFAULT 0 CHECK (type IN (0, 1)),     -- 0 ordinary, 1 flash sale
    status       INTEGER NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 on, 2 off, 3 expired
    create_time  INTEGER NOT NULL,
    update_time  INTEGER NOT NULL
) STRICT;

CREATE TABLE tb_seckill_voucher (
    voucher_id    INTEGER PRIMARY KEY REFERENCES tb_voucher (id),
    initial_stock INTEGER NOT NULL CHECK (initial_stock >= 0),
    stock         INTEGER NOT NULL CHECK (stock >= 0),
    begin_time    INTEGER,
    end_time      INTEGER,
    state         TEXT    NOT NULL CHECK (state IN ('running', 'paused', 'ended')),
    version       INTEGER NOT NULL DEFAULT 1,
    create_time   INTEGER NOT NULL,
    update_time   INTEGER NOT NULL,
    CHECK (stock <= initial_stock)
) STRICT;

-- status: 1 unpaid, 2 paid, 3 used, 4 cancelled, 5 closed as overdue.
CREATE TABLE tb_voucher_order (
    id          INTEGER PRIMARY KEY,
    user_id     INTEGER NOT NULL,
    voucher_id  INTEGER NOT NULL REFERENCES tb_seckill_voucher (voucher_id),
    pay_type    INTEGER NOT NULL DEFAULT 1,
    status      INTEGER NOT NULL DEFAULT 1 CHECK (status BETWEEN 1 AND 5),
    create_time INTEGER NOT NULL,
    pay_time    INTEGER,
    use_time    INTEGER,
    refund_time INTEGER,
    close_time  INTEGER,
    update_time INTEGER NOT NULL
) STRICT;

-- One live order a buyer and voucher; a closed one leaves the index, so the buyer may come again.
CREATE UNIQUE INDEX uk_one_live_order ON tb_voucher_order (voucher_id, user_id)
    WHERE status NOT IN (4, 5);
-- Live orders by id, a page at a time.
CREATE INDEX idx_live_order ON tb_voucher_order (voucher_id, id) WHERE status NOT IN (4, 5);
-- Closed orders are few and are only counted; live ones never touch this index.
CREATE INDEX idx_closed_order ON tb_voucher_order (voucher_id) WHERE status IN (4, 5);

CREATE TABLE tb_audit_log (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    operator TEXT    NOT NULL,
    node     TEXT    NOT NULL,
    act      TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    reason   TEXT,
    result   TEXT    NOT NULL
) STRICT;
