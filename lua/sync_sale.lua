#!lua
-- Updates the copy of a sale in Redis to the committed state in SQL. Idempotent; an older version is ignored.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 watermark (hash)
--       5 tally (hash)
-- ARGV  1 version  2 title  3 begin (ms, 0 = at once)  4 end (ms, 0 = never)  5 state  6 initial
--       7 limit (orders per user)  8 created (ms)  9 voucher  10 "new" for a newly created sale, else ""
--       11 server run ID
--       12 the voucher of which it is a shard, and how many it has: "7/3"; else ""
--       13 "confirmed" if SQL knows that Redis has had this version, else ""
--
-- Returns "taken" if the version was applied, "known" if Redis had it, "newer VERSION" if Redis has a newer one; "mended
-- FIELD=VALUE..." if Redis had it with other values of these fields, as another program wrote them, and has those of SQL now;
-- "cutting" if Redis had it and its stock is being removed (cut.lua), "expired" if that takes too long: a newer version puts
-- the pieces back; "damaged" if the keys of the sale are inconsistent or missing: it must be reconciled with its buyers;
-- "other" if Redis holds another sale with that ID: it is closed; "split" if Redis has this version of another history: SQL was
-- restored from a backup and changed since. Then the copy sells as little as either from now on, and SQL has to adopt it.
--
-- Only a change of SQL gives Redis a version, so other values at a version that SQL has not seen confirmed are those of
-- another history, and so are other pieces at any version. Other values at a confirmed version were written by another
-- program.
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

-- Sets the fields that only a new version changes to those of SQL; returns what they were, at most this many bytes of each.
-- The same fields as in `changed_fields` (src/engine/ledger/sale_copy.rs), without `initial`.
local MOST_SHOWN = 200
local function mend_fields()
  local mended = {}
  for _, field in ipairs({{'title', 2}, {'begin', 3}, {'end', 4}, {'state', 5}, {'limit', 7}, {'shard', 12}}) do
    local name, wanted = field[1], ARGV[field[2]]
    local found = redis.call('HGET', KEYS[1], name)
    -- A sale that is not spread may lack the field of its shards.
    if found ~= wanted and (found or name ~= 'shard' or wanted ~= '') then
      mended[#mended + 1] = name .. '=' .. string.sub(found or '', 1, MOST_SHOWN)
      redis.call('HSET', KEYS[1], name, wanted)
    end
  end
  return mended
end

-- The states, by how little they sell.
local RANK = {running = 1, paused = 2, ended = 3}

-- Whether Redis has this version with other values than the same history gives it.
local function is_split(sale)
  if sale[6] ~= ARGV[6] then
    return true
  end
  local is_same = sale[1] == ARGV[5] and sale[2] == ARGV[3] and sale[3] == ARGV[4] and sale[4] == ARGV[7]
  return ARGV[13] == '' and not is_same
end

-- Gives each field the value that sells less, that of SQL if the other is none. Pieces that are sold stay.
-- The same rule is in `sell_least` (src/model/sale.rs) and `rules::adopted` (src/store/rules.rs).
local function sell_least(sale, stock)
  local function number(text, wanted)
    return integer(text) or integer(wanted)
  end
  local state = (RANK[sale[1]] or 0) > (RANK[ARGV[5]] or 0) and sale[1] or ARGV[5]
  local begin = math.max(number(sale[2], ARGV[3]), integer(ARGV[3]))
  local ends = {number(sale[3], ARGV[4]), integer(ARGV[4])}
  -- Without an end, it never ends.
  local last = (ends[1] == 0 or ends[2] == 0) and math.max(ends[1], ends[2]) or math.min(ends[1], ends[2])
  local limit = math.min(number(sale[4], ARGV[7]), integer(ARGV[7]))
  local initial, buyers = integer(sale[6]), integer(sale[6]) - stock
  local pieces = math.min(initial, math.max(integer(ARGV[6]), buyers))
  redis.call('HSET', KEYS[1], 'state', state, 'begin', string.format('%.0f', begin), 'end', string.format('%.0f', last),
    'limit', string.format('%.0f', limit), 'initial', string.format('%.0f', pieces), 'title', ARGV[2], 'shard', ARGV[12])
  redis.call('SET', KEYS[2], string.format('%.0f', pieces - buyers))
  note_version(ARGV[1], string.format('%.0f', pieces), KEYS[5])
  raise_seq(KEYS[1], KEYS[3])
end

if ARGV[10] == 'new' and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0 then
  redis.call('HSET', KEYS[1], 'seq', 1, 'run', ARGV[11], unpack(fields))
  redis.call('SET', KEYS[2], ARGV[6])
  redis.call('HSET', KEYS[3], 'seq', 1)
  note_version(ARGV[1], ARGV[6], KEYS[5])
  highest_voucher()
  return 'taken'
end
local damaged, sale, stock = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
-- Also if it is damaged: no version of another sale is one of this.
if integer(sale[9]) and sale[9] ~= ARGV[8] then
  close_other(KEYS[1])
  return 'other'
end
if damaged or newest_version(sale[5], KEYS[5]) > integer(sale[5]) then
  return 'damaged'
end
local known = redis.call('HMGET', KEYS[1], 'cutting', 'cut_until')
if integer(sale[5]) > integer(ARGV[1]) then
  return 'newer ' .. sale[5]
end
if sale[5] == ARGV[1] then
  if not known[1] and is_split(sale) then
    sell_least(sale, stock)
    return 'split'
  end
  if known[1] ~= ARGV[1] then
    local mended = not known[1] and mend_fields() or {}
    if #mended == 0 then
      note_version(ARGV[1], ARGV[6], KEYS[5])
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
note_version(ARGV[1], ARGV[6], KEYS[5])
raise_seq(KEYS[1], KEYS[3])
highest_voucher()
return 'taken'
