#!lua
-- Admission: decides for a batch of buyers of one voucher, in order.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 orders (stream)  5 tally (hash)
--       6 reconciled (hash node -> server run ID that it has reconciled)  7 watermark (hash)
--       8 returned (sorted set: order -> ms of its return)
-- ARGV  1 group  2 shard: "7", or "7.3" for the third shard of the sale of voucher 7; "7.0" if entries without a shard
--         are those of another one, which had this ID in an earlier version
--       3 node  4 server run ID  5 minimum version of the sale
--       6 buyers who ask again: their shard was sold out, and was counted so
--       7 until when the proposed order IDs may be admitted (ms): a later call is a retry, and what was admitted and
--         returned meanwhile may have been forgotten
--       then the buyers, then the proposed order ID of each; without buyers, the script only says what it would answer
--
-- Returns one result per buyer:
--   -N       admitted under the proposed ID, at the buyer's place N
--   1        sold out
--   "ID" or "ID/N"  the order ID that the buyer already holds, at place N (none for the first): the proposed
--            one if an earlier call admitted it, else the last one within the limit of the sale
--   2        the entry could not be added; no stock is taken for this buyer and the following ones
--   3        the proposed ID is not admitted any more: its order was returned, or the call came too late
-- or one pair for the whole batch: {"paused"|"ended"|"not_ready", ""} or {"not_started", begin};
-- {"not_reconciled", ""}: this server lost its data, and the node must reconcile it before it admits;
-- {"damaged", "sale"|"stock"|"buyers"|"orders"|"watermark"}: that key is inconsistent with the others and must be
-- reconciled first; {"behind", version}: this copy of the sale is older than ARGV 5;
-- without buyers, {"sold_out", creation time and change number of the sale} or {"on_sale", ""}; "not_ready" is not
-- checked
--
-- A script is not rolled back when it fails half-way, so types, ranges and permissions are checked before the first
-- write, and the entry is added before its buyer and its stock are recorded. Without flags in the first line, a
-- server that is out of memory rejects the whole script. IDs stay strings: as numbers they would lose their low bits.

local first_buyer = 8
local voucher, number = string.match(ARGV[2], '^(%d+)%.?(%d*)$')
local buyers_asking = (#ARGV - first_buyer + 1) / 2

if redis.pcall('HGET', KEYS[6], ARGV[3]) ~= ARGV[4] then
  return {'not_reconciled', ''}
end

-- The counters of the tally are informational: a failed write is ignored.
local function count(name, by)
  -- What is taken back may have been lost, or is not counted yet.
  if by < 0 then
    by = -math.min(-by, math.max(0, integer(redis.pcall('HGET', KEYS[5], name)) or 0))
  end
  if by ~= 0 then
    redis.pcall('HINCRBY', KEYS[5], name, by)
  end
end

local function refuse(why, detail)
  count('rejected', buyers_asking)
  count('sold_out', -integer(ARGV[6]))
  return {why, detail or ''}
end

local damaged, sale, stock = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
if damaged then
  return {'damaged', damaged}
end
if integer(sale[5]) < integer(ARGV[5]) then
  return {'behind', sale[5]}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local opens, closes = integer(sale[2]) or 0, integer(sale[3]) or 0
if sale[1] == 'ended' or (closes > 0 and now >= closes) then
  return refuse('ended')
end
if sale[1] ~= 'running' then
  return refuse('paused')
end
if now < opens then
  return refuse('not_started', sale[2])
end
if buyers_asking == 0 then
  return stock == 0 and {'sold_out', sale[9] .. ':' .. sale[7]} or {'on_sale', ''}
end

-- Returns an error if the user of this connection may not run the command.
local function forbidden(command, key, ...)
  if not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM the user of this connection may not run ' .. command .. ' on ' .. key)
  end
end

-- Returns the reason not to admit the first buyer, as the result for the whole batch, or nil.
-- A batch without admissions needs no stream check, and most batches arrive after the sale is sold out.
local function obstacle(order, user)
  -- A stream that ends with the last added entry has lost nothing; XINFO STREAM costs far more.
  local newest, known = redis.pcall('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1), redis.pcall('HGET', KEYS[7], 'last_orders')
  if newest.err or not newest[1] or newest[1][1] ~= known then
    local lost, _, last = look_at_stream(KEYS[4], KEYS[7], 'orders')
    if not lost and knows_less(known, sale[10], last) then
      lost = 'watermark'
    end
    if lost then
      return {'damaged', lost}
    end
  end
  local groups = redis.pcall('XINFO', 'GROUPS', KEYS[4])
  local ready = false
  if not groups.err then
    for _, group in ipairs(groups) do
      ready = ready or group[2] == ARGV[1]
    end
  end
  if not ready then
    return refuse('not_ready')
  end
  return forbidden('XADD', KEYS[4], '*', 'id', order) or forbidden('HSET', KEYS[3], user, order)
    or forbidden('HSET', KEYS[1], 'seq', 1) or forbidden('HINCRBY', KEYS[7], 'orders', 1)
    or forbidden('HSET', KEYS[7], 'last_orders', '0-0') or forbidden('DECRBY', KEYS[2], 1)
end

-- A buyer's places are fields of their own: USER, USER/2, USER/3 up to the sale's limit.
local limit = integer(sale[4]) or 1
local fields, before = ARGV, first_buyer - 1
if limit > 1 then
  fields, before = {}, 0
  for i = 1, buyers_asking do
    local user = ARGV[first_buyer + i - 1]
    fields[#fields + 1] = user
    for place = 2, limit do
      fields[#fields + 1] = user .. '/' .. place
    end
  end
end
local held = {}
-- In chunks, because `unpack` has a limit.
for from = before + 1, before + buyers_asking * limit, 4000 do
  local upto = math.min(from + 3999, before + buyers_asking * limit)
  local orders = redis.call('HMGET', KEYS[3], unpack(fields, from, upto))
  for i = 1, #orders do
    if orders[i] then
      held[fields[from + i - 1]] = orders[i]
    end
  end
end

-- Returns the first free place, or nil and the result.
local function place_for(first, order)
  local free, answer
  for place = 1, limit do
    local holds = held[fields[first + place]]
    if not holds then
      free = free or place
    else
      local named = place == 1 and holds or (holds .. '/' .. place)
      if holds == order then
        return nil, named
      end
      answer = named
    end
  end
  return free, answer
end

-- An order ID is admitted once: after a return, an earlier call or a retry of it must not take the piece again. A key of
-- another type holds no returns; give_back.lua replaces it.
local is_late = now > integer(ARGV[7])
local returned = {}
if not is_late and stock > 0 and redis.call('EXISTS', KEYS[8]) == 1 then
  local at = redis.pcall('ZMSCORE', KEYS[8], unpack(ARGV, first_buyer + buyers_asking))
  for i = 1, at.err and 0 or #at do
    returned[i] = at[i]
  end
end

-- Adds the entry of a buyer. The usual ones are written out: `unpack` would cost each buyer a table.
local function add(user, order, place)
  if place > 1 then
    local entry = {'userId', user, 'voucherId', voucher, 'id', order, 'place', place}
    if number ~= '' then
      entry[9], entry[10] = 'shard', number
    end
    return redis.pcall('XADD', KEYS[4], '*', unpack(entry))
  elseif number ~= '' then
    return redis.pcall('XADD', KEYS[4], '*', 'userId', user, 'voucherId', voucher, 'id', order, 'shard', number)
  end
  return redis.pcall('XADD', KEYS[4], '*', 'userId', user, 'voucherId', voucher, 'id', order)
end

local answers, booked = {}, {}
local admitted, duplicate, sold_out, last_added = 0, 0, 0, nil
for i = 1, buyers_asking do
  local user, order = ARGV[first_buyer + i - 1], ARGV[first_buyer + buyers_asking + i - 1]
  local first = before + (i - 1) * limit
  local place, answer = place_for(first, order)
  if not place then
    answers[i] = answer
    duplicate = duplicate + 1
  elseif admitted >= stock then
    answers[i] = 1
    sold_out = sold_out + 1
  elseif is_late or returned[i] then
    answers[i] = 3
  else
    local why = admitted == 0 and obstacle(order, user)
    if why then
      return why
    end
    local added = add(user, order, place)
    if type(added) == 'table' and added.err then
      for rest = i, buyers_asking do
        answers[rest] = 2
      end
      break
    end
    last_added = added
    local place_field = fields[first + place]
    held[place_field] = order
    booked[2 * admitted + 1] = place_field
    booked[2 * admitted + 2] = order
    admitted = admitted + 1
    answers[i] = -place
  end
end

if admitted > 0 then
  local seq = string.format('%.0f', integer(sale[7]) + 1)
  redis.call('HSET', KEYS[3], 'seq', seq, unpack(booked))
  redis.call('DECRBY', KEYS[2], admitted)
  redis.call('HSET', KEYS[1], 'seq', seq, 'last', last_added)
  count_added(KEYS[7], admitted, last_added)
end
count('admitted', admitted)
count('duplicate', duplicate)
count('sold_out', sold_out - integer(ARGV[6]))
return answers
