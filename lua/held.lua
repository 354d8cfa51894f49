#!lua flags=no-writes
-- Reads what Redis has of a sale, also of a damaged one.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 tally (hash)
-- ARGV  none
--
-- The state is lost as well if the sale itself has another version than the newest one. The initial stock is that of the tally
-- if the sale has none.
--
-- Returns {version, title, begin, end, state, limit, created, shard, initial, sum, buyers}, each but the last one false if it
-- is lost; {} if there is no such key, or that of the sale has another type. The sum is that of the stock and the buyers, which
-- is the initial stock unless another program has changed it. Both include the pieces of a cut in progress.

local sale = redis.pcall('HMGET', KEYS[1], 'title', 'begin', 'end', 'state', 'limit', 'created', 'shard', 'initial', 'cut',
  'version', 'seq')
if sale.err or redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4]) == 0 then
  return {}
end
local buyers = redis.call('TYPE', KEYS[3]).ok == 'hash' and count_buyers(KEYS[3]) or 0
local seq, stock = redis.pcall('HGET', KEYS[3], 'seq'), integer(redis.pcall('GET', KEYS[2]))
-- Buyers of another moment are not those of this stock.
local is_sum = integer(seq) and (seq == sale[11] or not integer(sale[11])) and stock and stock >= 0
local cut = integer(sale[9]) or 0
local function with_cut(pieces)
  return pieces and pieces >= 0 and string.format('%.0f', pieces + cut)
end
local newest = newest_version(sale[10], KEYS[4])
if newest and newest ~= integer(sale[10]) then
  -- They are those of an older version, or of none.
  sale[4] = false
end
local initial = with_cut(integer(sale[8]))
if not initial then
  local noted = redis.pcall('HMGET', KEYS[4], 'version', 'initial')
  initial = newest and integer(noted[1]) == newest and integer(noted[2]) and noted[2]
end
return {newest or false, sale[1], sale[2], sale[3], sale[4], sale[5], sale[6], sale[7],
  initial or false, with_cut(is_sum and stock + buyers) or false, buyers}
