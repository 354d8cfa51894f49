#!lua
-- Puts dead letters back into the order stream: each is copied and deleted in one step.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 watermark (hash)
-- ARGV  three for each letter: letter, how often it was replayed with this time, the history that it takes along
--
-- Returns how many were put back; a letter that is gone is passed by.

local back = 0
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
    redis.call('XADD', KEYS[1], '*', unpack(entry))
    redis.call('XDEL', KEYS[2], ARGV[a])
    back = back + 1
  end
end
redis.pcall('HINCRBY', KEYS[3], 'orders', back)
return back
