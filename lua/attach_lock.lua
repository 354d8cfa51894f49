#!lua
-- Renews or releases the lock of `attach`, if this owner holds it.
--
-- KEYS  1 lock (string)
-- ARGV  1 owner  2 lease in milliseconds, 0 to release
--
-- Returns 1, or 0 if another owner or none holds it.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  return redis.call('DEL', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
