#!lua
-- Puts dead letters back into the order stream: each is copied and deleted in one step.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 watermark (hash)
-- ARGV  three for each letter: letter, how often it was replayed with this time, the history that it takes along
--
-- Returns how many were put back; a letter that is gone is passed by.

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
  -- The letter may be of an order that was promised to no buyer, so the entry is checked again.
  verify_until_now(KEYS[3], last)
  count_added(KEYS[3], back, last)
end
return back
