#!lua
-- Adds buyers of a sale that returns to another program to a set beside that of the program, or without any, deletes the
-- set of an earlier run.
--
-- KEYS  1 mark (string)  2 new buyers (set)
-- ARGV  1 mark of this run  2.. users
--
-- Returns 1, or 0 if another run has taken over.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if #ARGV == 1 then
  redis.call('DEL', KEYS[2])
else
  redis.call('SADD', KEYS[2], unpack(ARGV, 2))
end
return 1
