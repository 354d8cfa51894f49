-- A sale that is spread over several shards: each shard is a sale of its own, of the users whose ID falls to it.

-- The voucher that buyers ask for; NULL for a sale that is not spread.
ALTER TABLE tb_seckill_voucher ADD COLUMN shard_of BIGINT REFERENCES tb_voucher (id);
-- Number of shards of that voucher; a shard's ID is that of the voucher plus its number, from 1.
ALTER TABLE tb_seckill_voucher ADD COLUMN shards BIGINT CHECK (shards > 1);
