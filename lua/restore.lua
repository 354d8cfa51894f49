#!lua
-- Puts buyers back that a restarted Redis has forgotten: each takes his piece again, once.
--
-- KEYS  1 stock (string)  2 buyers (hash place -> order)  3 orders (stream)  4 dead (stream)
-- ARGV  1 voucher  2 "enqueue" to add the entry as well, else "book"  then three for each buyer:
--       user, place, order id
--
-- Returns {put back, order ids refused, order ids put back that were promised}: refused are buyers who hold another order now, and promises for
-- which no piece is left. A buyer who is there already under the same order counts as neither. A promise
-- ("enqueue") that is refused becomes a dead letter, so that its id still has a result.

local restored, refused, promised = 0, {}, {}

local function body(user, place, order, prefix)
  local fields = {prefix .. 'userId', user, prefix .. 'voucherId', ARGV[1], prefix .. 'id', order}
  if place ~= '1' then
    fields[7], fields[8] = prefix .. 'place', place
  end
  return unpack(fields)
end

for i = 3, #ARGV, 3 do
  local user, place, order = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local field = place == '1' and user or (user .. '/' .. place)
  local held = redis.call('HGET', KEYS[2], field)
  local reason, why
  if not held then
    -- An order that SQL holds has its piece, even where Redis has lost the restock that it came from.
    if ARGV[2] == 'book' or tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then
      if ARGV[2] == 'enqueue' then
        redis.call('XADD', KEYS[3], '*', body(user, place, order, ''))
        promised[#promised + 1] = order
      end
      redis.call('HSET', KEYS[2], field, order)
      redis.call('DECR', KEYS[1])
      restored = restored + 1
    else
      reason = 'promised before Redis was restarted; no piece is left for it'
      why = 'unkept'
    end
  elseif held ~= order then
    reason = 'promised before Redis was restarted; the buyer holds order ' .. held
    why = {promised = held}
  end
  if reason then
    refused[#refused + 1] = order
    if ARGV[2] == 'enqueue' then
      redis.call('XADD', KEYS[4], '*', 'reason', reason, 'why', cjson.encode(why),
        body(user, place, order, 'body:'))
    end
  end
end
return {restored, refused, promised}
