#!lua
-- Adds buyers to the set of a sale of another program that has lost them.
--
-- KEYS  1 buyers (set)  2 stock  3 mark of a sale that moves or has moved to an engine (string)
-- ARGV  1 1 if the sale must have no stock: users who have an entry and no order yet  2.. users
--
-- Returns the number of added users, or -1 if the sale has changed since the plan; then nothing is written.

if redis.call('EXISTS', KEYS[3]) == 1 or (ARGV[1] == '1' and redis.call('EXISTS', KEYS[2]) == 1) then
  return -1
end
return redis.call('SADD', KEYS[1], unpack(ARGV, 2))
