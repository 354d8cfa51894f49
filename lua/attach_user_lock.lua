#!lua
-- Acquires or releases the lock of a user in another program, as Redisson writes it. SET NX of a plain lock fails on this
-- hash as well.
--
-- KEYS  1 lock (hash: owner -> depth)
-- ARGV  1 owner  2 lease in milliseconds, 0 to release
--
-- Returns 1, or 0 if another owner holds it, or none when it is released.

if ARGV[2] ~= '0' then
  if redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
  end
  redis.call('HSET', KEYS[1], ARGV[1], '1')
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
-- WRONGTYPE if another program holds the lock, as a string.
if redis.pcall('HEXISTS', KEYS[1], ARGV[1]) ~= 1 then
  return 0
end
return redis.call('DEL', KEYS[1])
