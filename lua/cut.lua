#!lua
-- Takes unsold pieces out of a sale before SQL does: only what no buyer was promised can be taken.
--
-- KEYS  1 sale (hash)  2 stock (string)
-- ARGV  1 pieces  2 version of SQL that this was decided on  3 ms that SQL has for its part
--
-- Returns {"cut", left}, {"short", left} with fewer pieces left than were asked for, {"changed", 0} where
--   Redis holds another version, or {"not_loaded", 0}. Only the first one has changed something.
--
-- Version 0 gives way to any: whatever SQL says in the end, the next sync brings it, by the difference
-- of `initial`. Until the time is over, sync_sale.lua makes the version that is being cut wait.

local known = redis.call('HMGET', KEYS[1], 'version', 'initial')
local stock = tonumber(redis.call('GET', KEYS[2]) or '')
if not known[2] or not stock then
  return {'not_loaded', 0}
end
if known[1] ~= ARGV[2] then
  return {'changed', 0}
end
local by = tonumber(ARGV[1])
if stock < by then
  return {'short', stock}
end
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[3])
redis.call('DECRBY', KEYS[2], by)
redis.call('HINCRBY', KEYS[1], 'initial', -by)
redis.call('HSET', KEYS[1], 'version', 0, 'cutting', ARGV[2], 'cut_until', string.format('%.0f', until_ms))
return {'cut', stock - by}
