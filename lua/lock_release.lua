#!lua
-- Releases one level of a lock, or all of it. Idempotent: the depth is passed as an argument, not decremented.
--
-- KEYS  1 lock (hash)  2 locks (sorted set)  3 waiting (sorted set)
-- ARGV  1 owner  2 depth that it holds, 0 to release all levels and notify its node  3 name  4 channel
--
-- Returns 1 if released, 2 if an earlier call released it, 0 if the owner does not hold it.

-- The index of held locks and the lists of waiters are informational: a key of another type must not stop a lock.
local function note(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, '^WRONGTYPE') then
    redis.call(...)
  end
end

local waiting = redis.call('TYPE', KEYS[3]).ok == 'zset'
if waiting then
  redis.call('ZREM', KEYS[3], ARGV[1])
end
-- WRONGTYPE if another program holds the lock, as a string.
local held = tonumber(redis.pcall('HGET', KEYS[1], ARGV[1]))
if not held then
  return 0
end
local depth = tonumber(ARGV[2])
if depth > 0 and held == depth - 1 then
  return 2
end
if depth > 1 then
  redis.call('HSET', KEYS[1], ARGV[1], depth - 1)
  return 1
end
redis.call('DEL', KEYS[1])
note('ZREM', KEYS[2], ARGV[3])
if waiting then
  local time = redis.call('TIME')
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', time[1] * 1000 + math.floor(time[2] / 1000))
  if redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('PUBLISH', ARGV[4], '+' .. ARGV[3])
  end
end
if depth == 0 then
  redis.call('PUBLISH', ARGV[4], '-' .. ARGV[1])
end
return 1
