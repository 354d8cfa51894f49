#!lua
-- Admission: decides for a batch of buyers of one voucher, in their order.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash user -> order)  4 orders (stream)  5 tally (hash)
--       6 healed (hash node -> run of the server that it has made whole)
-- ARGV  1 group  2 voucher  3 node  4 run of the server  then a pair for each buyer: user, proposed order id
--
-- Returns one answer for each buyer:
--   -N       admitted under the proposed id, at the buyer's place N
--   1        sold out
--   "ID" or "ID/N"  the order id that the buyer holds already, at place N (the first without one): the proposed
--            one when an earlier call has admitted it, else the last of as many as the sale allows him
--   2        the entry could not be added; nothing was taken from this buyer on
-- or, for the whole batch, one pair: {"not_loaded"|"paused"|"ended"|"not_ready", ""} or {"not_started", begin},
-- or {"not_healed", ""}: this server was emptied, and the node has to make it whole before it admits
--
-- A script is not rolled back when it fails half-way, so everything is checked first, and an entry is
-- in the stream before its buyer and its piece are booked. Without flags in the first line, a
-- server that is out of memory refuses the script whole. Ids stay strings: as numbers they would lose their low bits.

local buyers_asking = (#ARGV - 4) / 2

if redis.call('HGET', KEYS[6], ARGV[3]) ~= ARGV[4] then
  return {'not_healed', ''}
end

local function refuse(why, detail)
  redis.call('HINCRBY', KEYS[5], 'rejected', buyers_asking)
  return {why, detail or ''}
end

local sale = redis.call('HMGET', KEYS[1], 'state', 'begin', 'end', 'limit')
local stock = tonumber(redis.call('GET', KEYS[2]) or '')
if not sale[1] or not stock then
  return {'not_loaded', ''}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local closes = tonumber(sale[3]) or 0
local opens = tonumber(sale[2]) or 0
if sale[1] == 'ended' or (closes > 0 and now >= closes) then
  return refuse('ended')
end
if sale[1] ~= 'running' then
  return refuse('paused')
end
if now < opens then
  return refuse('not_started', sale[2])
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

-- A buyer's places are fields of their own: USER, USER/2, USER/3 up to the sale's limit.
local limit = tonumber(sale[4]) or 1
local fields = {}
for i = 1, buyers_asking do
  local user = ARGV[3 + 2 * i]
  fields[#fields + 1] = user
  for place = 2, limit do
    fields[#fields + 1] = user .. '/' .. place
  end
end
local held = {}
-- In parts, for `unpack` has a limit.
for from = 1, #fields, 4000 do
  local upto = math.min(from + 3999, #fields)
  for i, order in ipairs(redis.call('HMGET', KEYS[3], unpack(fields, from, upto))) do
    if order then
      held[fields[from + i - 1]] = order
    end
  end
end

-- The first free place, or none and what the buyer is told instead.
local function place_for(first, order)
  local free, told
  for place = 1, limit do
    local holds = held[fields[first + place - 1]]
    if not holds then
      free = free or place
    else
      local named = place == 1 and holds or (holds .. '/' .. place)
      if holds == order then
        return nil, named
      end
      told = named
    end
  end
  return free, told
end

local answers, booked = {}, {}
local admitted, duplicate, sold_out = 0, 0, 0
for i = 1, buyers_asking do
  local user, order = ARGV[3 + 2 * i], ARGV[4 + 2 * i]
  local first = (i - 1) * limit + 1
  local place, told = place_for(first, order)
  if not place then
    answers[i] = told
    duplicate = duplicate + 1
  elseif admitted >= stock then
    answers[i] = 1
    sold_out = sold_out + 1
  else
    local added
    if place == 1 then
      added = redis.pcall('XADD', KEYS[4], '*', 'userId', user, 'voucherId', ARGV[2], 'id', order)
    else
      added = redis.pcall('XADD', KEYS[4], '*', 'userId', user, 'voucherId', ARGV[2], 'id', order, 'place', place)
    end
    if type(added) == 'table' and added.err then
      for rest = i, buyers_asking do
        answers[rest] = 2
      end
      break
    end
    local field = fields[first + place - 1]
    held[field] = order
    booked[#booked + 1] = field
    booked[#booked + 1] = order
    admitted = admitted + 1
    answers[i] = -place
  end
end

if admitted > 0 then
  redis.call('HSET', KEYS[3], unpack(booked))
  redis.call('DECRBY', KEYS[2], admitted)
  redis.call('HINCRBY', KEYS[5], 'admitted', admitted)
end
if duplicate > 0 then
  redis.call('HINCRBY', KEYS[5], 'duplicate', duplicate)
end
if sold_out > 0 then
  redis.call('HINCRBY', KEYS[5], 'sold_out', sold_out)
end
return answers
