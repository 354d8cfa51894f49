#!lua
-- Moves pending entries to the dead letters: each is copied and acknowledged in one step.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 watermark (hash)
-- ARGV  1 group  then three for each entry: entry, reason, and the data of the reason (JSON, may be empty)
--
-- Returns the number of moved entries; entries that are no longer pending are skipped.

local time = redis.call('TIME')
local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local moved = 0
for a = 2, #ARGV, 3 do
  local entry = ARGV[a]
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry, entry, 1)[1]
  if pending then
    local letter = {'entry', entry, 'reason', ARGV[a + 1], 'consumer', pending[2],
      'deliveries', tostring(pending[4]), 'at', at}
    if ARGV[a + 2] ~= '' then
      letter[#letter + 1] = 'why'
      letter[#letter + 1] = ARGV[a + 2]
    end
    local found = redis.call('XRANGE', KEYS[1], entry, entry)[1]
    if found then
      -- The fields of the body get a prefix: an invalid body may have a field `reason`.
      -- `unpack` has a limit; a body with more than 3,000 fields is truncated.
      for i = 1, math.min(#found[2], 6000), 2 do
        letter[#letter + 1] = 'body:' .. found[2][i]
        letter[#letter + 1] = found[2][i + 1]
      end
    end
    redis.call('XADD', KEYS[2], '*', unpack(letter))
    redis.call('XACK', KEYS[1], ARGV[1], entry)
    moved = moved + 1
  end
end
redis.pcall('HINCRBY', KEYS[3], 'dead', moved)
return moved
