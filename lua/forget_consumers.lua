#!lua
-- Removes consumers of dead nodes without pending entries, atomically: an entry delivered in between would be lost with
-- its consumer.
--
-- KEYS  1 orders (stream)  2 nodes (sorted set: node -> ms of its last heartbeat)
-- ARGV  1 group  2 minimum idle time (ms)  3 a node is dead after (ms)
--
-- Returns the names of the removed consumers.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local idle_ms, dead_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
local gone = {}
if consumers.err then
  return gone
end
for _, consumer in ipairs(consumers) do
  local name, pending, idle
  for i = 1, #consumer, 2 do
    if consumer[i] == 'name' then
      name = consumer[i + 1]
    elseif consumer[i] == 'pending' then
      pending = consumer[i + 1]
    elseif consumer[i] == 'idle' then
      idle = consumer[i + 1]
    end
  end
  local sign = tonumber(redis.call('ZSCORE', KEYS[2], string.match(name, '^(.*)/') or name) or '')
  if pending == 0 and idle >= idle_ms and not (sign and now - sign < dead_ms) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], name)
    gone[#gone + 1] = name
  end
end
return gone
