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

-- The index of held locks and the lists of waiters are informational: a key of another type must not stop a lock.
local function note(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, '^WRONGTYPE') then
    redis.call(...)
  end
end

-- Most locks are free. Every command costs more than the rest of the script: acquiring a free lock takes six.
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  -- From the clock, so that tokens increase even if Redis lost its data; and from the last token, so
  -- that they increase even if the clock steps back.
  local token = string.format('%.0f', micros)
  local last = redis.pcall('SET', KEYS[3], token, 'GET')
  if type(last) == 'table' and last.err and string.find(last.err, '^WRONGTYPE') then
    -- Of another program: it goes on from the clock.
    redis.call('RENAME', KEYS[3], KEYS[3] .. ':replaced')
    last = redis.call('SET', KEYS[3], token, 'GET')
  elseif type(last) == 'table' then
    return last
  end
  last = tonumber(last or '0') or 0
  if last >= micros then
    token = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[3], token)
  end
  redis.call('HSET', KEYS[1], ARGV[1], '1', '@token', token)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  note('ZADD', KEYS[2], math.floor(micros / 1000) + ARGV[2], ARGV[4])
  if ARGV[5] ~= '0' then
    note('ZREM', KEYS[4], ARGV[1])
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
    note('ZADD', KEYS[2], now + lease, ARGV[4])
  end
  return {1, redis.call('HGET', KEYS[1], '@token')}
end
if depth > 1 or held then
  return {-1, 0}
end
if wait > 0 then
  note('ZADD', KEYS[4], now + wait, ARGV[1])
  if redis.call('TYPE', KEYS[4]).ok == 'zset' then
    redis.call('PEXPIRE', KEYS[4], wait)
  end
end
return {0, redis.call('PTTL', KEYS[1])}
