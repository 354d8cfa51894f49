#!lua flags=allow-oom
-- Closes the generation of order IDs if no node is alive: no number is leased until SQL has recorded another opening. As long as
-- ":ids_closed" equals the number of openings in SQL, none was leased since, so a Redis that was restarted or restored from a copy
-- has lost none. A late closer never lowers the field: the next opener could remove the lower value, and a copy of Redis that still
-- holds the higher one would seem to have lost nothing.
--
-- KEYS  1 nodes (sorted set)  2 reconciled (hash)
-- ARGV  1 a node without a heartbeat for this long is dead (ms)  2 number of times that SQL has opened the generation
--
-- Returns 1 if it is closed, 0 if a node is alive.

local time = redis.call('TIME')
local alive = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[1])
if redis.call('ZCOUNT', KEYS[1], alive, '+inf') > 0 then
  return 0
end
local closed = tonumber(redis.call('HGET', KEYS[2], ':ids_closed') or '')
if not closed or closed < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[2], ':ids_closed', ARGV[2])
end
return 1
