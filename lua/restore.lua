#!lua
-- Restores buyers that Redis has lost: each takes stock again, once.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 orders (stream)  5 dead (stream)
--       6 watermark (hash)  7 tally (hash)  8 returned (sorted set: order -> ms)
-- ARGV  1 shard: "7", or "7.3" for the third shard of the sale of voucher 7; "7.0" if entries without a shard
--         are those of another one, which had this ID in an earlier version
--       2 "book" to restore the buyer; "claim" for a live order in SQL, which takes the place of any other order;
--         "enqueue" to add the entry as well; "refuse" to make it a dead letter, whatever the state of the sale
--       3 token of the reconciling process (reconcile_begin.lua), "" for a consistent sale
--       4 lease renewal (ms)  5 how long refused orders are remembered (ms)  then three for each buyer: user, place, order ID
--
-- Returns {restored, rejected order IDs, restored order IDs that were promised}: rejected are buyers who hold another
-- order now, and those for whom no stock is left. A buyer who already has the same order counts as neither.
-- A rejected promise ("enqueue", "refuse") becomes a dead letter, so that its ID still has a result.
-- {-1, {}, {}} without a change if the sale is inconsistent, or no longer reconciled under this token.

local token, refuse = ARGV[3], ARGV[2] == 'refuse'
local initial
if refuse then
  initial = 0
elseif token == '' then
  local damaged, sale = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
  if damaged then
    return {-1, {}, {}}
  end
  initial = integer(sale[6])
else
  if redis.pcall('HGET', KEYS[1], 'restoring') ~= token or redis.pcall('HGET', KEYS[3], 'restoring') ~= token then
    return {-1, {}, {}}
  end
  initial = integer(redis.call('HGET', KEYS[1], 'initial'))
  local time = redis.call('TIME')
  local lease = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[4])
  redis.call('HSET', KEYS[1], 'restore_until', string.format('%.0f', lease))
end

local restored, refused, promised = 0, {}, {}
local letters

-- Whether one of the latest dead letters has this order: a promise that two nodes know, or whose reply was lost, becomes one.
local function has_letter(order)
  if not letters then
    letters = {}
    local latest = redis.pcall('XREVRANGE', KEYS[5], '+', '-', 'COUNT', 1000)
    for _, letter in ipairs(latest.err and {} or latest) do
      letters[field(letter[2], 'body:id') or ''] = true
    end
  end
  return letters[order]
end

local room = refuse and 0 or initial - count_buyers(KEYS[3])

local voucher, number = string.match(ARGV[1], '^(%d+)%.?(%d*)$')
local function body(user, place, order, prefix)
  local fields = {prefix .. 'userId', user, prefix .. 'voucherId', voucher, prefix .. 'id', order}
  if place ~= '1' then
    fields[7], fields[8] = prefix .. 'place', place
  end
  if number ~= '' then
    fields[#fields + 1], fields[#fields + 2] = prefix .. 'shard', number
  end
  return unpack(fields)
end

for i = 6, #ARGV, 3 do
  local user, place, order = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local place_field = place == '1' and user or (user .. '/' .. place)
  local held = not refuse and redis.call('HGET', KEYS[3], place_field)
  local reason, why
  if not held then
    if room > 0 then
      if ARGV[2] == 'enqueue' then
        count_added(KEYS[6], 1, redis.call('XADD', KEYS[4], '*', body(user, place, order, '')))
        promised[#promised + 1] = order
      end
      redis.call('HSET', KEYS[3], place_field, order)
      room = room - 1
      restored = restored + 1
    else
      reason = 'admitted before Redis lost data; no stock is left for it'
      why = 'unkept'
    end
  elseif held ~= order and ARGV[2] == 'claim' then
    redis.call('HSET', KEYS[3], place_field, order)
  elseif held ~= order then
    reason = 'admitted before Redis lost data; the buyer now holds order ' .. held
    why = {promised = held}
  end
  if reason then
    refused[#refused + 1] = order
    if (ARGV[2] == 'enqueue' or refuse) and not has_letter(order) then
      letters[order] = true
      redis.call('XADD', KEYS[5], '*', 'reason', reason, 'why', cjson.encode(why),
        body(user, place, order, 'body:'))
      redis.pcall('HINCRBY', KEYS[6], 'dead', 1)
    end
  end
end
if #refused > 0 then
  -- The stream may hold entries of these orders, which must not be written.
  verify_until_now(KEYS[6], '0-0')
  remember_returned(KEYS[8], refused, 1, 1, ARGV[5])
end
if not refuse and token == '' and restored > 0 then
  redis.call('DECRBY', KEYS[2], restored)
  raise_seq(KEYS[1], KEYS[3])
  raise_tally(KEYS[7], KEYS[3])
end
return {restored, refused, promised}
