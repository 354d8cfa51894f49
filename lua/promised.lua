#!lua flags=no-writes
-- The order at each place of a sale, and whether the keys are consistent.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)
-- ARGV  places
--
-- Returns {"whole" or the inconsistent key, order or false for each place}.

local damaged = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
local held = {}
for from = 1, #ARGV, 4000 do
  local upto = math.min(from + 3999, #ARGV)
  local orders = redis.pcall('HMGET', KEYS[3], unpack(ARGV, from, upto))
  for i = from, upto do
    held[i] = not orders.err and orders[i - from + 1] or false
  end
end
return {damaged or 'whole', held}
