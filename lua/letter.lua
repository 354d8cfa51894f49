#!lua
-- Shared by other scripts, which are appended to it: moves a pending entry to the dead letters.
--
-- KEYS  1 orders (stream)  2 dead (stream)  and those of the appended script
-- ARGV  1 group  and those of the appended script
--
-- Returns nothing: it defines functions.

-- Copies a pending entry to the dead letters, `letter` followed by its body if it still has one, and acknowledges it.
local function bury(entry, letter)
  local time = redis.call('TIME')
  letter[#letter + 1] = 'entry'
  letter[#letter + 1] = entry
  letter[#letter + 1] = 'at'
  letter[#letter + 1] = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
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
end
