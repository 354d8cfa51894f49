#!lua flags=no-writes
-- Everything a Snapshot needs from Redis, consistent and in one round trip.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 nodes (sorted set)  4 gone (set)  5 instances (hash)  6 reconciled (hash)
--       7 watermark (hash)  8 rates (hash)  9 http (hash)  10 reports (hash)
--       then four for each sale: sale (hash), stock (string), buyers (hash), tally (hash)
-- ARGV  1 group  2 maximum number of entries to count
--
-- Returns {now ms,
--   {length, dead, has group, lag or false, pending, oldest pending or false, first entry or false,
--    entries dropped by a claim},
--   {last entry or false, entries added, last ID or false, last deleted ID or false,
--    last delivered ID or false, entries read or false, lag as Redis reports it or false},
--   consumers {name, pending, idle ms}..., nodes {name, ms, ...}, rates {name, orders per second, ...},
--   HTTP servers {node, figures as JSON, ...}, reports {node, JSON, ...},
--   sales {inconsistent key or false, initial or false, stock or false, buyers, version or false, created or false,
--     admitted, sold out, duplicate, rejected}...,
--   keys of the wrong type {key, type}..., which were not read,
--   streams that have lost entries...}

local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then
      return reply[i + 1]
    end
  end
  return false
end

local foreign = {}

-- Returns the result of a command on a key, or `other` if the key has another type. Other errors are raised.
local function read(key, other, ...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
  local kind = redis.call('TYPE', key).ok
  if string.find(reply.err, '^WRONGTYPE') then
    if not foreign[key] then
      foreign[key] = true
      foreign[#foreign + 1] = {key, kind}
    end
    return other
  end
  return redis.call(...)
end

local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
local marks = {false, 0, false, false, false, false, false}
if not info.err then
  local last = field(info, 'last-entry')
  marks[1] = last and last[1] or false
  marks[2] = field(info, 'entries-added')
  marks[3] = field(info, 'last-generated-id')
  local deleted = field(info, 'max-deleted-entry-id')
  marks[4] = deleted ~= '0-0' and deleted
end

-- The lag that Redis reports includes trimmed entries, and is wrong or unknown after deletions and a rewind of the group:
-- few entries are counted, from either end, and the reported value is used only if nothing contradicts it.
local function lag_of(group, length)
  local few, delivered = tonumber(ARGV[2]), field(group, 'last-delivered-id')
  local after = redis.pcall('XRANGE', KEYS[1], '(' .. delivered, '+', 'COUNT', few + 1)
  if after.err then
    return 0 -- Nothing comes after the largest possible ID.
  end
  if #after <= few then
    return #after
  end
  local before = #redis.call('XRANGE', KEYS[1], '-', delivered, 'COUNT', few + 1)
  if before <= few then
    return length - before
  end
  local lag = field(group, 'lag')
  if lag and not marks[4] and lag > few and lag < length - few then
    return lag
  end
  return false
end

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local first = read(KEYS[1], {}, 'XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local stream = {read(KEYS[1], 0, 'XLEN', KEYS[1]), read(KEYS[2], 0, 'XLEN', KEYS[2]), 0, false, 0, false,
  first and first[1] or false, read(KEYS[4], 0, 'SCARD', KEYS[4])}
local nodes = read(KEYS[3], {}, 'ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
read(KEYS[5], 0, 'HLEN', KEYS[5])
read(KEYS[6], 0, 'HLEN', KEYS[6])
local rates = read(KEYS[8], {}, 'HGETALL', KEYS[8])
local http = read(KEYS[9], {}, 'HGETALL', KEYS[9])
local reports = read(KEYS[10], {}, 'HGETALL', KEYS[10])
local consumers = {}

local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if not groups.err then
  for _, group in ipairs(groups) do
    if field(group, 'name') == ARGV[1] then
      stream[3] = 1
      stream[4] = lag_of(group, stream[1])
      marks[5] = field(group, 'last-delivered-id')
      marks[6] = field(group, 'entries-read')
      marks[7] = field(group, 'lag')
    end
  end
end
if stream[3] == 1 then
  local summary = redis.call('XPENDING', KEYS[1], ARGV[1])
  stream[5] = summary[1]
  stream[6] = summary[2]
  for i, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    consumers[i] = {field(consumer, 'name'), field(consumer, 'pending'), field(consumer, 'idle')}
  end
end

local function buyers_of(key)
  return redis.call('TYPE', key).ok == 'hash' and count_buyers(key) or 0
end

local sales = {}
for i = 11, #KEYS, 4 do
  local damaged, sale, stock = look_at_sale(KEYS[i], KEYS[i + 1], KEYS[i + 2])
  if damaged == 'sale' and redis.call('EXISTS', KEYS[i], KEYS[i + 1], KEYS[i + 2]) == 0 then
    damaged = false -- Not loaded, which is not damage.
  end
  local tally = read(KEYS[i + 3], {}, 'HMGET', KEYS[i + 3], 'admitted', 'sold_out', 'duplicate', 'rejected')
  if damaged then
    read(KEYS[i], 0, 'HLEN', KEYS[i])
    local text = read(KEYS[i + 1], false, 'GET', KEYS[i + 1])
    if text and not integer(text) then
      foreign[#foreign + 1] = {KEYS[i + 1], 'not-a-number'}
    end
    read(KEYS[i + 2], 0, 'HLEN', KEYS[i + 2])
  end
  -- Another program may have written what is no number.
  local function number(text)
    return (integer(text) or -1) >= 0 and text or false
  end
  sales[#sales + 1] = {damaged or false, number(sale[6]),
    stock and tostring(stock) or false, buyers_of(KEYS[i + 2]), number(sale[5]), number(sale[9]), integer(tally[1]) or 0, integer(tally[2]) or 0, integer(tally[3]) or 0,
    integer(tally[4]) or 0}
end

local lost = {}
for i, name in ipairs({'orders', 'dead'}) do
  if look_at_stream(KEYS[i], KEYS[7], name) == name then
    lost[#lost + 1] = KEYS[i]
  end
end

return {now, stream, marks, consumers, nodes, rates, http, reports, sales, foreign, lost}
