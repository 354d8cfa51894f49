#!lua flags=allow-oom
-- Releases the name of a node that stops, unless another process has taken it over.
--
-- KEYS  1 nodes (sorted set)  2 instances (hash: node -> process)  3 reconciled (hash)  4 http (hash)
-- ARGV  1 node  2 process
--
-- Returns 1 if the name was released, 0 if it belongs to another process.

if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.pcall('HDEL', KEYS[4], ARGV[1]) -- As in heartbeat.lua.
return 1
