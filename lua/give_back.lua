#!lua
-- Gives the place and the piece of closed orders back, each once: only while the buyer still holds
-- that very order.
--
-- KEYS  1 stock (string)  2 buyers (hash place -> order)
-- ARGV  a pair for each order: the buyer's place, order id
--
-- Returns how many were given back now.

local given = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[2], ARGV[i])
    given = given + 1
  end
end
if given > 0 then
  redis.call('INCRBY', KEYS[1], given)
end
return given
