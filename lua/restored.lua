#!lua
-- Records that every node has restored what it promised before a restart of this server: cut.lua may remove stock.
--
-- KEYS  1 reconciled (hash node -> server run ID that it has reconciled)  2 watermark (hash)
-- ARGV  1 node  2 server run ID
--
-- Returns 1 if it is recorded, or 0 if every node has to reconcile the partition again.

if redis.pcall('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
if redis.pcall('HGET', KEYS[2], 'restored') ~= ARGV[2] then
  redis.pcall('HSET', KEYS[2], 'restored', ARGV[2])
end
return 1
