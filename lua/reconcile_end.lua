#!lua
-- Ends the reconciliation of one sale: the stock is derived from the buyers, and the sale admits buyers again.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 watermark (hash)
--       5 tally (hash)
-- ARGV  1 token of the process (reconcile_begin.lua), "" if that returned "open"  2 server run ID
--       3 voucher
--
-- Returns {"done", stock before or false, stock}; {"oversold", buyers, initial} if there are more buyers than stock:
-- the sale stays closed; {"lost"} if a key was lost meanwhile, or another process took over: begin again.

if ARGV[1] == '' then
  if look_at_sale(KEYS[1], KEYS[2], KEYS[3]) then
    return {'lost'}
  end
  redis.call('HSET', KEYS[1], 'run', ARGV[2])
  return {'done'}
end
if redis.pcall('HGET', KEYS[1], 'restoring') ~= ARGV[1] or redis.pcall('HGET', KEYS[3], 'restoring') ~= ARGV[1] then
  return {'lost'}
end
local buyers = count_buyers(KEYS[3])
local sale = redis.call('HMGET', KEYS[1], 'initial', 'seq')
local initial = integer(sale[1])
redis.call('HDEL', KEYS[1], 'restoring', 'restore_until', 'found')
redis.call('HDEL', KEYS[3], 'restoring')
local before = redis.pcall('GET', KEYS[2])
local stock = string.format('%.0f', math.max(0, initial - buyers))
redis.call('SET', KEYS[2], stock)
-- Never a number that the sale has had before, not even if all of its keys were lost.
-- A change takes longer than a microsecond.
local time = redis.call('TIME')
local seq = string.format('%.0f', 1 + math.max(integer(sale[2]) or 0, integer(redis.call('HGET', KEYS[3], 'seq')) or 0,
  time[1] * 1000000 + time[2]))
redis.call('HSET', KEYS[1], 'seq', seq, 'run', ARGV[2])
redis.call('HSET', KEYS[3], 'seq', seq)
raise_tally(KEYS[5], KEYS[3])
if redis.call('TYPE', KEYS[4]).ok ~= 'string' and
  (integer(redis.pcall('HGET', KEYS[4], 'voucher')) or 0) < integer(ARGV[3]) then
  redis.pcall('HSET', KEYS[4], 'voucher', ARGV[3])
end
if buyers > initial then
  redis.call('HSET', KEYS[1], 'oversold', fingerprint(KEYS[1], KEYS[3]))
  return {'oversold', buyers, initial}
end
return {'done', type(before) == 'string' and before or false, stock}
