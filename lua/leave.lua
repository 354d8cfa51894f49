#!lua flags=allow-oom
-- Releases the name of a node that stops, unless another process has taken it over.
--
-- KEYS  1 nodes (sorted set)  2 instances (hash: node -> process)  3 reconciled (hash)  4 http (hash)
--       5 stopped (string: server run ID)  6 reports (hash)
-- ARGV  1 node  2 process  3 server run ID if the node has completed its work, else ""
--       4 a node without a heartbeat for this long is dead (ms)
--
-- Returns 1 if the name was released, 0 if it belongs to another process.

if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.pcall('HDEL', KEYS[4], ARGV[1]) -- As in heartbeat.lua.
redis.pcall('HDEL', KEYS[6], ARGV[1])
-- The last node leaves, and nothing is admitted until another one starts: as long as Redis has this, it has all before it.
local time = redis.call('TIME')
local alive = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[4])
if ARGV[3] ~= '' and redis.call('ZCOUNT', KEYS[1], alive, '+inf') == 0 then
  redis.pcall('SET', KEYS[5], ARGV[3])
end
return 1
