#!lua
-- Puts buyers back that a restarted Redis has forgotten: each takes his piece again, once.
--
-- KEYS  1 stock (string)  2 buyers (hash user -> order)  3 orders (stream)  4 dead (stream)
-- ARGV  1 voucher  2 "enqueue" to add the entry as well, else "book"  then a pair for each buyer: user, order id
--
-- Returns {put back, order ids refused}: refused are buyers who hold another order now, and promises for
-- which no piece is left. A buyer who is there already under the same order counts as neither. A promise
-- ("enqueue") that is refused becomes a dead letter, so that its id still has a result.

local restored, refused = 0, {}

local function refuse(user, order, reason)
  refused[#refused + 1] = order
  if ARGV[2] == 'enqueue' then
    redis.call('XADD', KEYS[4], '*', 'reason', reason,
      'body:userId', user, 'body:voucherId', ARGV[1], 'body:id', order)
  end
end

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
      refuse(ARGV[i], ARGV[i + 1], 'promised before Redis was restarted; no piece is left for it')
    end
  elseif held ~= ARGV[i + 1] then
    refuse(ARGV[i], ARGV[i + 1], 'promised before Redis was restarted; the buyer holds order ' .. held)
  end
end
return {restored, refused}
