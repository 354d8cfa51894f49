#!lua
-- Acquires a lock, or re-enters a lock that its owner holds. Idempotent: the depth is passed as an argument,
-- not incremented.
--
-- KEYS  1 lock (hash: owner -> depth, @token)  2 locks (sorted set: name -> end of lease, ms)
--       3 last token (string)  4 waiting (sorted set: owner -> end of its wait, ms)
-- ARGV  1 owner  2 lease (ms)  3 depth wanted  4 name  5 how long the caller waits (ms), 0 if it does not
--
-- Returns {1, token} if the lock is acquired, {0, ms left or negative} if another owner holds it,
-- {-1, 0} if the owner has lost the lock that it re-enters.

-- Most locks are free. Every command costs more than the rest of the script: acquiring a free lock takes six.
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  -- From the clock, so that tokens increase even if Redis lost its data; and from the last token, so
  -- that they increase even if the clock steps back.
  local token = string.format('%.0f', micros)
  local last = tonumber(redis.call('SET', KEYS[3], token, 'GET') or '0')
  if last >= micros then
    token = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[3], token)
  end
  redis.call('HSET', KEYS[1], ARGV[1], '1', '@token', token)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('ZADD', KEYS[2], math.floor(micros / 1000) + ARGV[2], ARGV[4])
  if ARGV[5] ~= '0' then
    redis.call('ZREM', KEYS[4], ARGV[1])
  end
  return {1, token}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease, depth, wait = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
-- WRONGTYPE if another program holds the lock, as a string.
local held = tonumber(redis.pcall('HGET', KEYS[1], ARGV[1]))
if held == depth or held == depth - 1 then
  redis.call('HSET', KEYS[1], ARGV[1], depth)
  if redis.call('PTTL', KEYS[1]) < lease then
    redis.call('PEXPIRE', KEYS[1], lease)
    redis.call('ZADD', KEYS[2], now + lease, ARGV[4])
  end
  return {1, redis.call('HGET', KEYS[1], '@token')}
end
if depth > 1 or held then
  return {-1, 0}
end
if wait > 0 then
  redis.call('ZADD', KEYS[4], now + wait, ARGV[1])
  redis.call('PEXPIRE', KEYS[4], wait)
end
return {0, redis.call('PTTL', KEYS[1])}
