-- Orders of ordinary vouchers. They have a table of their own: those of a sale refer to `tb_seckill_voucher` and hold
-- one place of their buyer each, and SQLite changes neither without a copy of all orders. Nothing is copied here, so
-- the cost does not depend on how many orders there are.

-- status: 1 unpaid, 2 paid, 3 used, 4 cancelled, 5 closed as overdue. Ids are those of the id worker, shared with
-- `tb_voucher_order`.
CREATE TABLE tb_ordinary_order (
    id          INTEGER PRIMARY KEY,
    user_id     INTEGER NOT NULL,
    voucher_id  INTEGER NOT NULL REFERENCES tb_voucher (id),
    pay_type    INTEGER NOT NULL DEFAULT 1,
    status      INTEGER NOT NULL DEFAULT 1 CHECK (status BETWEEN 1 AND 5),
    create_time INTEGER NOT NULL,
    pay_time    INTEGER,
    use_time    INTEGER,
    refund_time INTEGER,
    close_time  INTEGER,
    update_time INTEGER NOT NULL
) STRICT;

-- Pages of orders, by voucher and by user.
CREATE INDEX idx_ordinary_voucher ON tb_ordinary_order (voucher_id, id);
CREATE INDEX idx_ordinary_user ON tb_ordinary_order (user_id, id);
-- Unpaid orders by age: what the closing job reads, in pages.
CREATE INDEX idx_ordinary_unpaid ON tb_ordinary_order (create_time, id) WHERE status = 1;
