#!lua
-- Adds the body of a dead letter of `attach` to the stream of another program again, and deletes the letter in the same
-- step.
--
-- KEYS  1 stream  2 dead letters (stream)  3 mark of a sale that moves or has moved to an engine (string)
-- ARGV  1 letter
--
-- Returns the ID of the new entry, or nil if there is no such letter, or the sale has the mark.

local letter = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])[1]
if not letter or redis.call('EXISTS', KEYS[3]) == 1 then
  return nil
end
local entry = {}
for i = 1, #letter[2], 2 do
  if string.sub(letter[2][i], 1, 5) == 'body:' then
    entry[#entry + 1] = string.sub(letter[2][i], 6)
    entry[#entry + 1] = letter[2][i + 1]
  end
end
local added = redis.call('XADD', KEYS[1], '*', unpack(entry))
redis.call('XDEL', KEYS[2], ARGV[1])
return added
