#!lua
-- Puts buyers back that a restarted Redis has forgotten: each takes his piece again, once.
--
-- KEYS  1 stock (string)  2 buyers (hash user -> order)  3 orders (stream)
-- ARGV  1 voucher  2 "enqueue" to add the entry as well, else "book"  then a pair for each buyer: user, order id
--
-- Returns {put back, refused}: refused are buyers who hold another order now, and promises for which no
-- piece is left. A buyer who is there already under the same order counts as neither.

local restored, refused = 0, 0
for i = 3, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[2], ARGV[i])
  if not held then
    -- An order that SQL holds has its piece, even where Redis has lost the restock that it came from.
    if ARGV[2] == 'book' or tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then
      if ARGV[2] == 'enqueue' then
        redis.call('XADD', KEYS[3], '*', 'userId', ARGV[i], 'voucherId', ARGV[1], 'id', ARGV[i + 1])
      end
      redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
      redis.call('DECR', KEYS[1])
      restored = restored + 1
    else
      refused = refused + 1
    end
  elseif held ~= ARGV[i + 1] then
    refused = refused + 1
  end
end
return {restored, refused}
