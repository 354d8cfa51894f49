#!lua
-- Removes unsold stock from a sale before SQL does. Stock that is promised to buyers cannot be removed.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 watermark (hash)
-- ARGV  1 pieces  2 version in SQL that the decision is based on  3 how long others wait for SQL (ms)
--       4 token of this process  5 server run ID; "" for a Redis that no node has reconciled, and none will
--
-- Returns {"cut", left}, {"short", left} if less stock is left than requested, {"changed", 0} if
--   Redis holds another version, {"cutting", 0} if another cut is in progress, {"not_loaded", 0}, or {"not_reconciled", 0}
--   if a node may still restore buyers in this run of the server. Only "cut" changes anything.
--
-- SQL removes the pieces only at this version. A process that puts them back raises the version in SQL first:
-- sync_sale.lua puts no piece back at the version that is being cut, whatever the time.

if ARGV[5] ~= '' and redis.pcall('HGET', KEYS[4], 'restored') ~= ARGV[5] then
  return {'not_reconciled', 0}
end
local damaged, sale, stock = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
if damaged then
  return {'not_loaded', 0}
end
if sale[5] ~= ARGV[2] then
  return {'changed', 0}
end
if redis.call('HEXISTS', KEYS[1], 'cutting') == 1 then
  return {'cutting', 0}
end
local by = integer(ARGV[1])
if stock < by then
  return {'short', stock}
end
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3])
redis.call('DECRBY', KEYS[2], by)
redis.call('HINCRBY', KEYS[1], 'initial', -by)
redis.call('HSET', KEYS[1], 'cutting', ARGV[2], 'cut', by, 'cutter', ARGV[4],
  'cut_until', string.format('%.0f', until_ms))
raise_seq(KEYS[1], KEYS[3])
return {'cut', stock - by}
