#!lua
-- A node's sign of life, by Redis' clock.
--
-- KEYS  1 nodes (sorted set: node -> ms of its last sign)
-- ARGV  1 node  2 forget after (ms): nodes silent for longer are dropped from the set
--
-- Returns Redis' clock in ms.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
return now
