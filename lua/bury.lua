#!lua
-- Moves pending entries to the dead letters: each is copied and acknowledged in one step.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 watermark (hash)
-- ARGV  1 group  then three for each entry: entry, reason, and the data of the reason (JSON, may be empty)
--
-- Returns the number of moved entries; entries that are no longer pending are skipped.

local moved = 0
for a = 2, #ARGV, 3 do
  local entry = ARGV[a]
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry, entry, 1)[1]
  if pending then
    local letter = {'reason', ARGV[a + 1], 'consumer', pending[2], 'deliveries', tostring(pending[4])}
    if ARGV[a + 2] ~= '' then
      letter[#letter + 1] = 'why'
      letter[#letter + 1] = ARGV[a + 2]
    end
    bury(entry, letter)
    moved = moved + 1
  end
end
redis.pcall('HINCRBY', KEYS[3], 'dead', moved)
return moved
