#!lua
-- Sets a sale's stock to what its buyers leave of what was ever put on sale.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)
-- ARGV  none
--
-- Returns {stock before or false, stock now}, or {false, false} where the sale is not there or has more buyers
-- than pieces: nothing is changed then.

local initial = tonumber(redis.call('HGET', KEYS[1], 'initial') or '')
local stock = initial and initial - redis.call('HLEN', KEYS[3])
if not stock or stock < 0 then
  return {false, false}
end
local before = redis.call('GET', KEYS[2])
redis.call('SET', KEYS[2], stock)
return {before, stock}
