#!lua flags=no-writes
-- The moment of each of these sales of another program, all read at once.
--
-- KEYS  1 stream, empty if there is none  then for each sale: stock, buyers (set), mark of a sale that moves or has moved
-- ARGV  1 group
--
-- Returns a text for each sale.

local moments = {}
for i = 2, #KEYS, 3 do
  moments[#moments + 1] = moment(KEYS[1], ARGV[1], KEYS[i], KEYS[i + 1], KEYS[i + 2])
end
return moments
