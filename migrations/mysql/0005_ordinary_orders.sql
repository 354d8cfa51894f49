-- Orders of ordinary vouchers. They have a table of their own: those of a sale refer to `tb_seckill_voucher` and hold
-- one place of their buyer each. Nothing is copied here, so the cost does not depend on how many orders there are.
--
-- Every statement can be repeated.

-- status: 1 unpaid, 2 paid, 3 used, 4 cancelled, 5 closed as overdue. Ids are those of the id worker, shared with
-- `tb_voucher_order`.
CREATE TABLE IF NOT EXISTS tb_ordinary_order (
    id          BIGINT  NOT NULL PRIMARY KEY,
    user_id     BIGINT  NOT NULL,
    voucher_id  BIGINT  NOT NULL,
    pay_type    TINYINT NOT NULL DEFAULT 1,
    status      TINYINT NOT NULL DEFAULT 1 CHECK (status BETWEEN 1 AND 5),
    create_time BIGINT  NOT NULL,
    pay_time    BIGINT,
    use_time    BIGINT,
    refund_time BIGINT,
    close_time  BIGINT,
    update_time BIGINT  NOT NULL,
    -- Pages of orders, by voucher and by user.
    KEY idx_ordinary_voucher (voucher_id, id),
    KEY idx_ordinary_user (user_id, id),
    -- Unpaid orders by age: what the closing job reads, in pages.
    KEY idx_ordinary_unpaid (status, create_time, id),
    CONSTRAINT fk_ordinary_voucher FOREIGN KEY (voucher_id) REFERENCES tb_voucher (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
