#!lua
-- Removes a consumer of a dead node without pending entries, atomically: an entry delivered in between would be lost
-- with its consumer.
--
-- KEYS  1 orders (stream)  2 nodes (sorted set: node -> ms of its last heartbeat)
-- ARGV  1 group  2 consumer  3 its node  4 a node is dead after (ms)
--
-- Returns {word, pending entries}: 'done', 'unknown' (no such consumer, or no group), 'alive' (its node is), 'pending' (it
-- holds entries).

local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then
      return reply[i + 1]
    end
  end
end

local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
local pending = false
if not consumers.err then
  for _, consumer in ipairs(consumers) do
    if field(consumer, 'name') == ARGV[2] then
      pending = field(consumer, 'pending')
    end
  end
end
if not pending then
  return {'unknown', 0}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sign = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[3]) or '')
if sign and now - sign < tonumber(ARGV[4]) then
  return {'alive', pending}
end
if pending > 0 then
  return {'pending', pending}
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return {'done', 0}
