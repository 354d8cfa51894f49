#!lua
-- Leases numbers of one UTC day for order IDs. The watermark also counts them, in case the counter is lost.
--
-- KEYS  1 counter of the day (string)  2 watermark (hash)  3 reconciled (hash; field ":ids": the generation of IDs), or none
-- ARGV  1 day (YYYY-MM-DD)  2 number of IDs  3 TTL of the counter (s)  4 IDs known to be leased
--       5 IDs to skip if neither key exists for the day: both may have been lost
--       6 with KEYS 3: the generation that the caller knows
--
-- Returns the end of the lease: its numbers are the last ARGV 2 before that; or -1 if the generation has ended, since the
-- counters may have been lost with it, or if it was closed: the caller asks for the generation again.

if KEYS[3] then
  local known = redis.pcall('HMGET', KEYS[3], ':ids', ':ids_closed')
  if known[1] ~= ARGV[6] or known[2] then
    return -1
  end
end

set_aside(KEYS[1], 'string')
set_aside(KEYS[2], 'hash')
local counted = integer(redis.call('GET', KEYS[1]))
local leased = math.max(counted or 0, integer(ARGV[4]))
local known = redis.call('HMGET', KEYS[2], 'ids_day', 'ids')
if known[1] == ARGV[1] then
  leased = math.max(leased, integer(known[2]) or 0)
elseif not counted then
  leased = leased + integer(ARGV[5])
end
leased = leased + integer(ARGV[2])
local text = string.format('%.0f', leased)
redis.call('SET', KEYS[1], text, 'EX', ARGV[3])
-- After midnight, a node may still lease IDs of the previous day: its reading of the clock is older, or the server is behind.
if not known[1] or known[1] <= ARGV[1] then
  redis.call('HSET', KEYS[2], 'ids_day', ARGV[1], 'ids', text)
end
return leased
