#!lua
-- Replays dead letters into the order stream: each is copied and deleted atomically.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 watermark (hash)
-- ARGV  three for each letter: letter, number of replays including this one, its history
--
-- Returns the number of replayed letters; missing letters are skipped.

local back, last = 0, nil
for a = 1, #ARGV, 3 do
  local letter = redis.call('XRANGE', KEYS[2], ARGV[a], ARGV[a])[1]
  if letter then
    local entry = {}
    for i = 1, #letter[2], 2 do
      local name = letter[2][i]
      if string.sub(name, 1, 5) == 'body:' and name ~= 'body:replays' and name ~= 'body:history' then
        entry[#entry + 1] = string.sub(name, 6)
        entry[#entry + 1] = letter[2][i + 1]
      end
    end
    for _, text in ipairs({'replays', ARGV[a + 1], 'history', ARGV[a + 2]}) do
      entry[#entry + 1] = text
    end
    last = redis.call('XADD', KEYS[1], '*', unpack(entry))
    redis.call('XDEL', KEYS[2], ARGV[a])
    back = back + 1
  end
end
if last then
  -- The order of the letter may not be promised to a buyer, so the entry is checked again.
  verify_until_now(KEYS[3], last)
  count_added(KEYS[3], back, last)
end
return back
