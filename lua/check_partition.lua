#!lua
-- Checks a partition for keys that were lost, replaced or rolled back. If there are none, it advances the watermark over
-- entries that were added without it, and marks every entry so far for a check against the buyers.
--
-- KEYS  1 orders (stream)  2 dead (stream)  3 watermark (hash)
--       then four for each sale: sale (hash), stock (string), buyers (hash), tally (hash)
-- ARGV  1 "accept" to accept both streams as complete, after their orders were searched for, else ""
--       2 entries added to the orders as of the previous check, none of which may be missing, or 0
--       then two for each sale: its creation time in SQL, and its fields in SQL:
--       VERSION:STATE:BEGIN:END:LIMIT:INITIAL:SHARD:TITLE, where SHARD is the voucher of which it is a shard, and how many it
--       has, "7/3", or empty
--
-- Returns {losses of the streams ("orders", "dead" or "watermark") and keys repaired here ("KEY TYPE" for a key of another
-- type, "KEY" for a tally or watermark that was lost or rolled back)..., indexes from 1 of the sales in KEYS that are
-- inconsistent..., entries ever added to the orders, indexes of the sales whose cut (cut.lua) takes too long..., indexes of
-- the sales whose fields differ from those that the same version has in SQL...}.

local lost = {}
for i, wanted in ipairs({'stream', 'stream', 'hash'}) do
  local found = set_aside(KEYS[i], wanted)
  if found then
    lost[#lost + 1] = KEYS[i] .. ' ' .. found
  end
end
local counts, last_ids = {}, {}
for i, name in ipairs({'orders', 'dead'}) do
  local missing, added, last = look_at_stream(KEYS[i], KEYS[3], name)
  counts[name], last_ids[name] = added or 0, last or '0-0'
  if missing and lost[#lost] ~= missing then
    lost[#lost + 1] = missing
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local damaged, tallies, cuts, changed, set_back = {}, {}, {}, {}, false
local known_last = redis.call('HGET', KEYS[3], 'last_orders')
for i = 4, #KEYS, 4 do
  local other = set_aside(KEYS[i + 3], 'hash')
  if other then
    tallies[#tallies + 1] = KEYS[i + 3] .. ' ' .. other
  end
  local disagrees, sale = look_at_sale(KEYS[i], KEYS[i + 1], KEYS[i + 2])
  local is_other = sale[9] ~= ARGV[3 + (i - 4) / 2]
  local wanted = ARGV[4 + (i - 4) / 2]
  if not is_other and is_oversold(disagrees, KEYS[i], KEYS[i + 2]) then
    -- It stays closed; nothing that was lost is known to be there again.
  elseif disagrees or is_other or newest_version(sale[5], KEYS[i + 3]) > integer(sale[5]) then
    damaged[#damaged + 1] = (i - 4) / 4 + 1
  else
    -- The process that cut the sale died, or SQL rejected the cut and the stock was not returned.
    local cut_until = integer(redis.call('HGET', KEYS[i], 'cut_until'))
    if cut_until and cut_until <= now then
      cuts[#cuts + 1] = (i - 4) / 4 + 1
    end
    local cut = integer(redis.call('HGET', KEYS[i], 'cut')) or 0
    note_version(sale[5], string.format('%.0f', integer(sale[6]) + cut), KEYS[i + 3])
    if raise_tally(KEYS[i + 3], KEYS[i + 2]) and not other then
      tallies[#tallies + 1] = KEYS[i + 3]
    end
    local found = tostring(sale[5])
    for place = 1, 4 do
      found = found .. ':' .. tostring(sale[place])
    end
    -- A cut has removed pieces that SQL has.
    local is_cut = redis.call('HEXISTS', KEYS[i], 'cutting') == 1
    found = found .. ':' .. (is_cut and string.match(wanted, '^%d+:%a+:%d+:%d+:%d+:(%d+)') or sale[6])
    local named = redis.call('HMGET', KEYS[i], 'shard', 'title')
    -- A missing title is none, not an empty one.
    found = found .. ':' .. (named[1] or '') .. (named[2] and ':' .. named[2] or '')
    if sale[5] == string.match(wanted, '^%d+') and found ~= wanted then
      changed[#changed + 1] = (i - 4) / 4 + 1
    end
    set_back = set_back or knows_less(known_last, sale[10], last_ids.orders)
  end
end
if #lost == 0 or (ARGV[1] == 'accept' and counts.orders >= integer(ARGV[2])) then
  local known = redis.call('HMGET', KEYS[3], 'orders', 'dead')
  if known[1] ~= tostring(counts.orders) or known[2] ~= tostring(counts.dead) then
    redis.call('HSET', KEYS[3], 'orders', counts.orders, 'dead', counts.dead)
  end
  local last = last_ids.orders
  local verified = redis.call('HMGET', KEYS[3], 'last_orders', 'unverified_until')
  if known[1] ~= tostring(counts.orders) or verified[1] ~= last or not verified[2] or ARGV[1] == 'accept' then
    redis.call('HSET', KEYS[3], 'last_orders', last)
    verify_until_now(KEYS[3], last)
  end
end
if set_back and #lost == 0 then
  lost[1] = KEYS[3]
end
for _, tally in ipairs(tallies) do
  lost[#lost + 1] = tally
end
return {lost, damaged, counts.orders, cuts, changed}
