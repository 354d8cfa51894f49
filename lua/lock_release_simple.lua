#!lua
-- Releases a lock of another program: a string, whose value names the owner.
--
-- KEYS  1 lock (string: its owner)  2 locks (sorted set)
-- ARGV  1 owner  2 name
--
-- Returns 1 if released, 0 if the owner does not hold it.

-- The index of held locks and the lists of waiters are informational: a key of another type must not stop a lock.
local function note(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, '^WRONGTYPE') then
    redis.call(...)
  end
end

if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] then
  note('ZREM', KEYS[2], ARGV[2])
  return redis.call('DEL', KEYS[1])
end
return 0
