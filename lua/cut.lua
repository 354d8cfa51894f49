#!lua
-- Takes unsold pieces out of a sale before SQL does: only what no buyer was promised can be taken.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)
-- ARGV  1 pieces  2 version of SQL that this was decided on  3 ms that SQL has for its part
--
-- Returns {"cut", left}, {"short", left} with fewer pieces left than were asked for, {"changed", 0} where
--   Redis holds another version or another cut is under way, or {"not_loaded", 0}. Only the first has changed something.
--
-- Whatever SQL says in the end, the next sync brings it, by the difference of `initial`. Until the time is over,
-- sync_sale.lua makes the version that is being cut wait.

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
