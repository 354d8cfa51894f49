#!lua
-- Frees the places of closed orders and returns their stock, once per order: only while the buyer still holds
-- that order.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 returned (sorted set: order -> ms)
-- ARGV  1 how long the orders are remembered (ms): none of them is admitted again meanwhile (admit.lua)
--       then a pair for each order: the buyer's place, order ID
--
-- Returns the number of orders whose stock was returned by this call.

remember_returned(KEYS[4], ARGV, 3, 2, ARGV[1])
local given = 0
for i = 2, #ARGV, 2 do
  -- A key of another type holds no buyer.
  if redis.pcall('HGET', KEYS[3], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[3], ARGV[i])
    given = given + 1
  end
end
-- A sale that is inconsistent or being reconciled has no valid stock: reconciliation derives it from the buyers.
if given > 0 and redis.call('TYPE', KEYS[1]).ok == 'hash' then
  if integer(redis.pcall('GET', KEYS[2])) then
    redis.call('INCRBY', KEYS[2], given)
  end
  raise_seq(KEYS[1], KEYS[3])
end
return given
