#!lua
-- Adds the body of a dead letter of `attach` to the stream of another program again, and deletes the letter in the same
-- step. Its buyer must hold a piece: one who is no buyer any more takes one.
--
-- KEYS  1 stream  2 dead letters (stream)  3 stock  4 buyers (set)  5 mark of a sale that moves or has moved to an engine
-- ARGV  1 letter  2 user  3 last ID of the stream when it was checked that the user has no other entry
--
-- Returns the ID of the new entry, or why it was not added: 0 no such letter  1 the sale has the mark  2 the stream has
--   changed  3 the user is no buyer, and no piece is left

local letter = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])[1]
if not letter then
  return 0
end
if redis.call('EXISTS', KEYS[5]) == 1 then
  return 1
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' and info[i + 1] ~= ARGV[3] then
    return 2
  end
end
if redis.call('SISMEMBER', KEYS[4], ARGV[2]) == 0 then
  if (tonumber(redis.call('GET', KEYS[3])) or 0) <= 0 then
    return 3
  end
  redis.call('INCRBY', KEYS[3], -1)
  redis.call('SADD', KEYS[4], ARGV[2])
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
