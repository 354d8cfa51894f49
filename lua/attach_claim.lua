#!lua
-- Takes over the move of a sale from an earlier run, which can change nothing of it then.
--
-- KEYS  1 mark (string)
-- ARGV  1 mark as it was read, empty if there was none  2 mark of this run
--
-- Returns 1, or 0 if the mark has changed.

if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
