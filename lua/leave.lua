#!lua flags=allow-oom
-- A node that ends gives its name back, unless another process has it by now.
--
-- KEYS  1 nodes (sorted set)  2 instances (hash: node -> process)  3 healed (hash)
-- ARGV  1 node  2 process
--
-- Returns 1 when it was given back, 0 when it is another's.

if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return 1
