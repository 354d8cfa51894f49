#!lua
-- Removes unsold stock from a sale before SQL does. Stock that is promised to buyers cannot be removed.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)
-- ARGV  1 pieces  2 version in SQL that the decision is based on  3 time limit for SQL (ms)
--
-- Returns {"cut", left}, {"short", left} if less stock is left than requested, {"changed", 0} if
--   Redis holds another version or another cut is in progress, or {"not_loaded", 0}. Only "cut" changes anything.
--
-- The next sync applies the final result of SQL as a difference of `initial`. Until the time limit expires,
-- sync_sale.lua defers the version that is being cut.

local damaged, sale, stock = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
if damaged then
  return {'not_loaded', 0}
end
if sale[5] ~= ARGV[2] or redis.call('HEXISTS', KEYS[1], 'cutting') == 1 then
  return {'changed', 0}
end
local by = integer(ARGV[1])
if stock < by then
  return {'short', stock}
end
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3])
redis.call('DECRBY', KEYS[2], by)
redis.call('HINCRBY', KEYS[1], 'initial', -by)
redis.call('HSET', KEYS[1], 'cutting', ARGV[2], 'cut_until', string.format('%.0f', until_ms))
raise_seq(KEYS[1], KEYS[3])
return {'cut', stock - by}
