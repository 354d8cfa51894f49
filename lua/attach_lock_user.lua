#!lua
-- Renews or releases the lock of a user in another program, which `attach_take.lua` has acquired.
--
-- KEYS  1 lock (hash: owner -> depth)
-- ARGV  1 owner  2 lease in milliseconds, 0 to release
--
-- Returns 1, or 0 if another owner or none holds it.

-- WRONGTYPE if another program holds the lock, as a string.
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) ~= 1 then
  return 0
end
if ARGV[2] == '0' then
  return redis.call('DEL', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
