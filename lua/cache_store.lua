#!lua
-- Stores what a loader has read from SQL in the cache, unless it was changed meanwhile: a change removes the lock of the
-- loader together with the entry.
--
-- KEYS  1 entry (string)  2 lock of the loader (string)
-- ARGV  1 token of the loader  2 value  3 time to live (ms)
--
-- Returns 1 if the value was stored, 0 if the lock was removed or has expired.

if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1
