#!lua
-- Renews many locks of one node in one call.
--
-- KEYS  1 locks (sorted set), then the locks (hashes)
-- ARGV  1 lease (ms); then for each lock: owner, name
--
-- Returns for each lock 1 if its owner holds it and it was renewed, else 0.

-- The index of held locks and the lists of waiters are informational: a key of another type must not stop a lock.
local function note(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, '^WRONGTYPE') then
    redis.call(...)
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lease = tonumber(ARGV[1])
local renewed = {}
for i = 2, #KEYS do
  local owner, name = ARGV[i * 2 - 2], ARGV[i * 2 - 1]
  -- WRONGTYPE if another program holds the lock, as a string.
  if redis.pcall('HEXISTS', KEYS[i], owner) == 1 then
    redis.call('PEXPIRE', KEYS[i], lease)
    note('ZADD', KEYS[1], now + lease, name)
    renewed[i - 1] = 1
  else
    renewed[i - 1] = 0
  end
end
-- Locks whose holders died: their leases ended over a minute ago.
note('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 60000)
return renewed
