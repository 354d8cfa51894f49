#!lua flags=allow-oom
-- Heartbeat of a node, by the Redis clock. Two processes must not share one name. The script also runs on a server that
-- is out of memory: its nodes are alive, and it frees as much as it adds.
--
-- KEYS  1 nodes (sorted set: node -> ms of its last heartbeat)  2 instances (hash: node -> process)  3 reconciled (hash)
--       4 rates (hash: node -> orders that it writes per second)
--       5 http (hash: node -> figures of its HTTP server, as JSON)
--       6 reports (hash: node -> its report, as JSON)
-- ARGV  1 node  2 expire after (ms): nodes without a heartbeat are removed  3 process  4 dead after (ms)
--       5 "take" to take the name over from any process, or the ID of one that has certainly ended
--       6 orders written per second since its last heartbeat
--       7 figures of its HTTP server  8 its report; both are empty if it has none
--
-- Returns {Redis clock in ms, 1}, or {clock, 0} without a write if another process of that name is alive.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local other = redis.call('HGET', KEYS[2], ARGV[1])
if other and other ~= ARGV[3] and other ~= ARGV[5] and ARGV[5] ~= 'take' then
  local sign = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
  if sign and now - sign < tonumber(ARGV[4]) then
    return {now, 0}
  end
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[1], now, ARGV[1])
-- Informational: a key of another type must not fail the heartbeat.
redis.pcall('HSET', KEYS[4], ARGV[1], ARGV[6])
for i = 5, 6 do
  if ARGV[i + 2] == '' then
    redis.pcall('HDEL', KEYS[i], ARGV[1])
  else
    redis.pcall('HSET', KEYS[i], ARGV[1], ARGV[i + 2])
  end
end
local before = now - tonumber(ARGV[2])
for _, node in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before)) do
  redis.call('HDEL', KEYS[2], node)
  redis.call('HDEL', KEYS[3], node)
  redis.pcall('HDEL', KEYS[4], node)
  redis.pcall('HDEL', KEYS[5], node)
  redis.pcall('HDEL', KEYS[6], node)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', before)
return {now, 1}
