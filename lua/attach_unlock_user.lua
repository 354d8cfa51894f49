#!lua
-- Releases the lock of a user in another program, which `attach_take.lua` has acquired.
--
-- KEYS  1 lock (hash: owner -> depth)
-- ARGV  1 owner
--
-- Returns 1, or 0 if another owner or none holds it.

-- WRONGTYPE if another program holds the lock, as a string.
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) ~= 1 then
  return 0
end
return redis.call('DEL', KEYS[1])
