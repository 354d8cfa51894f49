-- Each change of a sale is delivered to Redis until it confirms the version.

ALTER TABLE tb_seckill_voucher ADD COLUMN delivered_version INTEGER NOT NULL DEFAULT 0;
CREATE INDEX idx_undelivered_sale ON tb_seckill_voucher (voucher_id) WHERE delivered_version < version;
