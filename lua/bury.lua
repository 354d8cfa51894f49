#!lua
-- Moves one pending entry to the dead letters: copy and acknowledge in one step.
--
-- KEYS  1 orders (stream)  2 dead (stream)
-- ARGV  1 group  2 entry  3 reason
--
-- Returns 1 when it was moved, 0 when it is not pending any more (then nothing changes).

local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)[1]
if not pending then
  return 0
end
local time = redis.call('TIME')
local letter = {'entry', ARGV[2], 'reason', ARGV[3], 'consumer', pending[2], 'deliveries', tostring(pending[4]),
  'at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}
local found = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if found then
  -- The body's own fields are kept under a prefix: a poisoned one may be called `reason`.
  -- Beyond 100 fields it is no order anyway, and `unpack` has a limit.
  for i = 1, math.min(#found[2], 200), 2 do
    letter[#letter + 1] = 'body:' .. found[2][i]
    letter[#letter + 1] = found[2][i + 1]
  end
end
redis.call('XADD', KEYS[2], '*', unpack(letter))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1
