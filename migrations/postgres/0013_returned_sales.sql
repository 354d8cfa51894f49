-- A sale that goes back to the service that it came from: since when its orders are paid there, and neither paid nor
-- closed here. NULL for every other sale.
ALTER TABLE tb_seckill_voucher ADD COLUMN return_time BIGINT;
