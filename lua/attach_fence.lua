#!lua
-- Marks a sale of another program as moving to an engine, and renames its stock, so that the program cannot sell it: in one
-- step, and only if it is as the operator has seen it.
--
-- KEYS  1 stock (string)  2 renamed stock (string)  3 mark (string)  4 record of a return (string)  5 buyers (set)
-- ARGV  1 mark  2 stock in the plan  3 number of buyers in the plan
--
-- Returns 1, or 0 if something has changed; then nothing is written.

local stock = tonumber(redis.call('GET', KEYS[1]) or '')
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0 or not stock or stock ~= tonumber(ARGV[2])
  or redis.call('SCARD', KEYS[5]) ~= tonumber(ARGV[3]) then
  return 0
end
redis.call('SET', KEYS[3], ARGV[1])
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
