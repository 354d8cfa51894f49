#!lua flags=allow-oom
-- Closes the generation of order IDs if no node is alive: no number is leased until SQL has opened it once more. If Redis has
-- this when SQL has not, none was leased since: it has lost none, even if it was restarted, or restored from a copy. A closer
-- that is late never lowers the number: who opens the generation over the lower one would leave the higher one unopened.
--
-- KEYS  1 nodes (sorted set)  2 reconciled (hash)
-- ARGV  1 a node without a heartbeat for this long is dead (ms)  2 how often SQL has opened the generation
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
