#!lua
-- Updates the copy of a sale in Redis to the committed state in SQL. Idempotent; an older version is ignored.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 watermark (hash)
-- ARGV  1 version  2 title  3 begin (ms, 0 = at once)  4 end (ms, 0 = never)  5 state  6 initial
--       7 limit (orders per user)  8 created (ms)  9 voucher  10 "new" for a newly created sale, else ""
--       11 server run ID
--       12 the voucher of which it is a shard, and how many it has: "7/3"; else ""
--
-- Returns "taken" if the version was applied, "known" if Redis had it, "newer VERSION" if Redis has a newer one; "mended
-- FIELD=VALUE..." if Redis had it with other values of these fields, as another program wrote them, and has those of SQL now;
-- "cutting" if Redis had it and its stock is being removed (cut.lua), "expired" if that takes too long: a newer version puts
-- the pieces back; "damaged" if the keys of the sale are inconsistent or missing: it must be reconciled with its buyers;
-- "other" if Redis holds another sale with that ID: it is closed.
--
-- The stock changes by the difference between the old and the new `initial`, so that pieces sold in the meantime stay
-- sold.

local fields = {'version', ARGV[1], 'title', ARGV[2], 'begin', ARGV[3], 'end', ARGV[4], 'state', ARGV[5],
  'initial', ARGV[6], 'limit', ARGV[7], 'created', ARGV[8], 'shard', ARGV[12]}

local function highest_voucher()
  if redis.call('TYPE', KEYS[4]).ok ~= 'hash' and redis.call('EXISTS', KEYS[4]) == 1 then
    return
  end
  if (integer(redis.call('HGET', KEYS[4], 'voucher')) or 0) < integer(ARGV[9]) then
    redis.call('HSET', KEYS[4], 'voucher', ARGV[9])
  end
end

-- Sets the fields that only a new version changes to those of SQL; returns what they were.
local function mend_fields()
  local mended = {}
  for name, wanted in pairs({begin = ARGV[3], ['end'] = ARGV[4], state = ARGV[5], limit = ARGV[7]}) do
    local found = redis.call('HGET', KEYS[1], name)
    if found ~= wanted then
      mended[#mended + 1] = name .. '=' .. tostring(found or '')
      redis.call('HSET', KEYS[1], name, wanted)
    end
  end
  return mended
end

if ARGV[10] == 'new' and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  redis.call('HSET', KEYS[1], 'seq', 1, 'run', ARGV[11], unpack(fields))
  redis.call('SET', KEYS[2], ARGV[6])
  redis.call('HSET', KEYS[3], 'seq', 1)
  highest_voucher()
  return 'taken'
end
local damaged, sale, stock = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
if damaged then
  return 'damaged'
end
local known = redis.call('HMGET', KEYS[1], 'cutting', 'cut_until', 'created')
if known[3] ~= ARGV[8] then
  close_other(KEYS[1])
  return 'other'
end
if integer(sale[5]) > integer(ARGV[1]) then
  return 'newer ' .. sale[5]
end
if sale[5] == ARGV[1] then
  if known[1] ~= ARGV[1] then
    local mended = not known[1] and mend_fields() or {}
    if #mended == 0 then
      return 'known'
    end
    raise_seq(KEYS[1], KEYS[3])
    return 'mended ' .. table.concat(mended, ' ')
  end
  -- Stock returned now could be sold before SQL removes it: SQL does so at this version, however late.
  local time = redis.call('TIME')
  local waits = time[1] * 1000 + math.floor(time[2] / 1000) < (integer(known[2]) or 0)
  return waits and 'cutting' or 'expired'
end
-- Never below 0: a sale with more buyers than stock is inconsistent, and closed until that is resolved.
redis.call('SET', KEYS[2], string.format('%.0f', math.max(0, stock + integer(ARGV[6]) - integer(sale[6]))))
redis.call('HDEL', KEYS[1], 'cutting', 'cut', 'cutter', 'cut_until')
redis.call('HSET', KEYS[1], unpack(fields))
raise_seq(KEYS[1], KEYS[3])
highest_voucher()
return 'taken'
