-- Limits a user, archived sales, pages of orders, settings that all nodes share.

-- Orders that one user may hold; each takes a place of its own, from 1.
ALTER TABLE tb_seckill_voucher ADD COLUMN user_limit INTEGER NOT NULL DEFAULT 1
    CHECK (user_limit BETWEEN 1 AND 20);
-- When the ended sale left Redis; NULL while it is there.
ALTER TABLE tb_seckill_voucher ADD COLUMN archive_time INTEGER;
ALTER TABLE tb_voucher_order ADD COLUMN place INTEGER NOT NULL DEFAULT 1
    CHECK (place BETWEEN 1 AND 20);

-- One live order a buyer, voucher and place; a closed one leaves the index, so the buyer may come again.
DROP INDEX uk_one_live_order;
CREATE UNIQUE INDEX uk_one_live_order ON tb_voucher_order (voucher_id, user_id, place)
    WHERE status NOT IN (4, 5);

-- Pages of closed orders, by voucher and by user; live ones never touch these.
DROP INDEX idx_closed_order;
CREATE INDEX idx_closed_order ON tb_voucher_order (voucher_id, id) WHERE status IN (4, 5);
CREATE INDEX idx_closed_user ON tb_voucher_order (user_id, id) WHERE status IN (4, 5);

ALTER TABLE tb_give_back ADD COLUMN place INTEGER NOT NULL DEFAULT 1;

-- What every node has to agree on.
CREATE TABLE tb_setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
