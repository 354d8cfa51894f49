#!lua
-- Shared by other scripts, which are appended to it: checks that related keys are consistent.
--
-- Each change of a sale increments `seq` in the sale and among its buyers, and the stock is `initial` minus the buyers.
-- A key that was deleted, replaced or rolled back no longer matches the two others.
-- The watermark counts the entries ever added to each stream, which exposes a stream that was deleted or rolled back.
--
-- KEYS  those of the appended script
-- ARGV  those of the appended script
--
-- Returns nothing: it defines functions.

-- Returns an integer that Lua represents exactly; nil for anything else, including the error of a key of another type.
local function integer(text)
  if type(text) == 'string' and #text <= 17 and string.match(text, '^%-?%d+$') then
    local number = tonumber(text)
    return math.abs(number) < 2 ^ 53 and number or nil
  end
end

local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then
      return reply[i + 1]
    end
  end
end

-- Number of buyers: the fields of the hash except `seq`, and `restoring` while the sale is reconciled.
local function count_buyers(key)
  return redis.call('HLEN', key) - redis.call('HEXISTS', key, 'seq') - redis.call('HEXISTS', key, 'restoring')
end

-- Returns the inconsistent key ("sale", "stock" or "buyers"; "restoring" for a sale that is being reconciled) or nil, the
-- fields of the sale, and the stock.
local function look_at_sale(sale_key, stock_key, buyers_key)
  local sale = redis.pcall('HMGET', sale_key, 'state', 'begin', 'end', 'limit', 'version', 'initial', 'seq', 'restoring',
    'created', 'last')
  if sale.err or not sale[1] or (integer(sale[5]) or 0) < 1 or not integer(sale[6]) or not integer(sale[7])
    or not integer(sale[9]) then
    return 'sale', sale, nil
  end
  if sale[8] then
    return 'restoring', sale, nil
  end
  local seq = redis.pcall('HGET', buyers_key, 'seq')
  if seq ~= sale[7] then
    local known = integer(seq)
    return known and known > integer(sale[7]) and 'sale' or 'buyers', sale, nil
  end
  local stock = integer(redis.pcall('GET', stock_key))
  if not stock or stock < 0 or stock + redis.call('HLEN', buyers_key) - 1 ~= integer(sale[6]) then
    return 'stock', sale, stock
  end
  return nil, sale, stock
end

-- More changes than any sale has had: a greater number was written by another program.
local MOST_VERSIONS = 2 ^ 40

-- The newest version that a sale has had here, by itself or by its tally, which outlives the fields of a sale; nil if neither
-- has one.
local function newest_version(version, tally_key)
  local seen = integer(redis.pcall('HGET', tally_key, 'version')) or 0
  local newest = math.max(integer(version) or 0, seen < MOST_VERSIONS and seen or 0)
  return newest > 0 and newest or nil
end

-- Notes the version of a sale and its pieces, with those of a cut in progress: if its other keys are lost, no other key
-- says how many it had, and its buyers would find none. An earlier version of this program, or one that still runs, does not.
local function note_version(version, initial, tally_key)
  local known = redis.pcall('HMGET', tally_key, 'version', 'initial')
  if known[1] ~= version or known[2] ~= initial then
    redis.pcall('HSET', tally_key, 'version', version, 'initial', initial)
  end
end

-- What reconcile_end.lua stores in `oversold`: a sale with more buyers than pieces stays closed, and is not reconciled
-- again before it changes.
local function fingerprint(sale_key, buyers_key)
  local sale = redis.call('HMGET', sale_key, 'version', 'seq')
  return sale[1] .. ':' .. sale[2] .. ':' .. count_buyers(buyers_key)
end

-- Whether an inconsistent sale is closed because it has more buyers than pieces.
local function is_oversold(damaged, sale_key, buyers_key)
  if damaged ~= 'stock' then
    return false
  end
  local known = redis.call('HGET', sale_key, 'oversold')
  return known and known == fingerprint(sale_key, buyers_key)
end

-- Returns the stream that has lost entries, or the watermark if it is missing, or nil; the number of entries ever added
-- and the last ID, nil if the key holds no stream.
--
-- The same count with another last ID means that entries were lost and another program added as many.
local function look_at_stream(stream_key, watermark_key, name)
  local info = redis.pcall('XINFO', 'STREAM', stream_key)
  if info.err and not string.find(info.err, 'no such key', 1, true) then
    return name
  end
  local known = redis.pcall('HMGET', watermark_key, name, 'last_' .. name)
  local added = info.err and 0 or field(info, 'entries-added')
  local last = info.err and '0-0' or field(info, 'last-generated-id')
  local count = not known.err and integer(known[1])
  if not count then
    return 'watermark', added, last
  end
  local lost = added < count or (added == count and known[2] and known[2] ~= last)
  return lost and name or nil, added, last
end

-- Whether stream ID `a` is older than `b`.
local function is_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if not a_ms or not b_ms or a_ms == b_ms then
    return a_ms and b_ms and tonumber(a_seq) < tonumber(b_seq)
  end
  return tonumber(a_ms) < tonumber(b_ms)
end

-- Whether the watermark was rolled back: the stream ends at `newest`, and it has had an entry of this sale that is newer
-- than the last one known to the watermark.
local function knows_less(known_last, sale_last, newest)
  return known_last and sale_last and is_before(known_last, sale_last) and not is_before(newest, sale_last)
end

-- The counters of the tally are informational: those that were lost or rolled back are set to the number of buyers. Returns whether it was.
local function raise_tally(tally_key, buyers_key)
  local buyers = count_buyers(buyers_key)
  if (integer(redis.pcall('HGET', tally_key, 'admitted')) or 0) >= buyers then
    return false
  end
  return type(redis.pcall('HSET', tally_key, 'admitted', buyers)) == 'number'
end

-- Counts entries added to the order stream: the watermark holds their number and the last ID. If it cannot be written,
-- the entries are checked against the buyers.
local function count_added(watermark_key, by, last)
  redis.pcall('HINCRBY', watermark_key, 'orders', by)
  redis.pcall('HSET', watermark_key, 'last_orders', last)
end

-- Every entry so far is checked against the buyers, including those that a consumer holds.
local function verify_until_now(watermark_key, last)
  local time = redis.call('TIME')
  local millis = time[1] * 1000 + math.floor(time[2] / 1000)
  local ahead = tonumber(string.match(last, '^%d+'))
  local until_id = ahead > millis and last or string.format('%.0f-18446744073709551615', millis)
  redis.pcall('HSET', watermark_key, 'unverified_until', until_id)
end

-- Closes a sale whose ID belongs to another sale in SQL: admission only checks the keys in Redis, which are consistent.
local function close_other(sale_key)
  redis.call('HSET', sale_key, 'restoring', 'another sale', 'restore_until', 0)
end

-- Records a change of a sale in the sale and among its buyers.
local function raise_seq(sale_key, buyers_key)
  redis.call('HINCRBY', sale_key, 'seq', 1)
  redis.call('HINCRBY', buyers_key, 'seq', 1)
end

-- Remembers orders that must not be admitted again: every `step`th value of `orders`, beginning with the `from`th.
local function remember_returned(key, orders, from, step, keep)
  local found = redis.call('TYPE', key).ok
  if found ~= 'zset' and found ~= 'none' then
    redis.call('RENAME', key, key .. ':replaced')
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  for i = from, #orders, step do
    redis.call('ZADD', key, now, orders[i])
  end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - keep)
  redis.call('PEXPIRE', key, keep)
end

-- Renames a key of another type to a name that nothing reads; returns its type, or nil.
local function set_aside(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then
    redis.call('RENAME', key, key .. ':replaced')
    return found
  end
end
