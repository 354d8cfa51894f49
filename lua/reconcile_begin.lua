#!lua
-- Begins the reconciliation of one sale: it admits no buyers until reconcile_end.lua. One process at a time reconciles it.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)  4 tally (hash)
-- ARGV  1 token of this process  2 lease (ms), renewed by restore.lua  3 server run ID
--       then the sale by SQL:  4 version  5 title  6 begin  7 end  8 state  9 initial  10 limit  11 created
--       12 "always" to begin even if the keys are consistent; "replace" to begin even if Redis holds another sale with
--          that ID, whose keys are renamed; "again" to take a newer version after "begun"; else ""
--       13 the voucher of which it is a shard, and how many it has: "7/3"; else ""
--       14 "confirmed" if SQL knows that Redis has had this version, else ""
--
-- Returns
--   {"whole"}   the keys are consistent and were reconciled in this server run
--   {"open", version}   they are consistent, and buyers can be restored without closing the sale: no node admits buyers
--               in a server run that it has not reconciled
--   {"busy"}    another process is reconciling the sale
--   {"oversold"}  it has more buyers than pieces, and was closed for that at this version; nothing has changed since
--   {"other"}   Redis holds another sale with that ID and another creation time: it is closed
--   {"begun", version, findings...}: "sale", "stock" or "buyers" for an inconsistent key, "KEY TYPE" for a renamed key,
--               "restoring" and the findings of an interrupted process
--   {"kept", version, findings...}: as "begun", but only the stock was lost: Redis knows that no cut is in progress
--   {"unsure", version, findings...}: as "begun", but SQL may have an older version of the sale than its keys had: what is left
--               of them stays as it is, and SQL has to adopt it before "again"
--   {"lost"}    "again", and a key was lost meanwhile, another process took over, or SQL has an older version: begin again
--
-- A cut in progress (cut.lua), or one that Redis may have lost, is undone: the caller raises the version in SQL after "begun"
-- and "open", so that it is not committed any more.

local function take()
  local version = redis.call('HGET', KEYS[1], 'version')
  if not integer(version) or integer(version) <= integer(ARGV[4]) then
    redis.call('HSET', KEYS[1], 'version', ARGV[4], 'title', ARGV[5], 'begin', ARGV[6], 'end', ARGV[7],
      'state', ARGV[8], 'initial', ARGV[9], 'limit', ARGV[10], 'created', ARGV[11], 'shard', ARGV[13])
    note_version(ARGV[4], ARGV[9], KEYS[4])
    return ARGV[4]
  end
  return version
end

if ARGV[12] == 'again' then
  local newest = newest_version(redis.pcall('HGET', KEYS[1], 'version'), KEYS[4])
  -- SQL was set back once more.
  local is_behind = newest and newest > integer(ARGV[4])
  if is_behind or redis.pcall('HGET', KEYS[1], 'restoring') ~= ARGV[1] then
    return {'lost'}
  end
  redis.call('HDEL', KEYS[1], 'cutting', 'cut', 'cutter', 'cut_until', 'oversold')
  return {'begun', take()}
end

local found = {}
for i, wanted in ipairs({'hash', 'string', 'hash', 'hash'}) do
  local other = set_aside(KEYS[i], wanted)
  if other then
    found[#found + 1] = KEYS[i] .. ' ' .. other
  end
end
local damaged, sale = look_at_sale(KEYS[1], KEYS[2], KEYS[3])
local newest = newest_version(sale[5], KEYS[4])
if not damaged and newest > integer(sale[5]) then
  damaged = 'sale'
end
local known = redis.call('HMGET', KEYS[1], 'restoring', 'restore_until', 'created', 'run')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A creation time that is not one names no other sale: it is damaged.
local other = integer(known[3]) and known[3] ~= ARGV[11]
if not other and not damaged and known[4] == ARGV[3] and #found == 0 and ARGV[12] == '' then
  return {'whole'}
end
if known[1] and known[1] ~= ARGV[1] and now < (integer(known[2]) or 0) then
  return {'busy'}
end
if not other and known[4] == ARGV[3] and #found == 0 and ARGV[12] == '' and integer(sale[5]) and
  integer(sale[5]) >= integer(ARGV[4]) and is_oversold(damaged, KEYS[1], KEYS[3]) then
  return {'oversold'}
end
if other and ARGV[12] ~= 'replace' then
  close_other(KEYS[1])
  return {'other'}
end
if other then
  for i = 1, #KEYS do
    local replaced = set_aside(KEYS[i], '')
    if replaced then
      found[#found + 1] = KEYS[i] .. ' ' .. replaced
    end
  end
  sale = {}
elseif not damaged and #found == 0 and ARGV[12] == '' then
  return {'open', sale[5]}
end
if damaged and #found == 0 then
  found[1] = damaged
  for i, name in ipairs({'sale', 'stock', 'buyers'}) do
    if name ~= damaged and redis.call('EXISTS', KEYS[i]) == 0 then
      found[#found + 1] = name
    end
  end
end
if damaged == 'restoring' then
  for key in string.gmatch(redis.call('HGET', KEYS[1], 'found') or '', '[^,]+') do
    if key ~= 'restoring' then
      found[#found + 1] = key
    end
  end
end
-- Only a newer version in SQL, or the one that Redis has confirmed, certainly has what was lost.
local in_sql = integer(ARGV[4])
local has_any = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0
local is_unsure = not other and (newest and newest > in_sql
  or newest == in_sql and damaged == 'sale' and ARGV[14] == ''
  or not newest and damaged and has_any)
if not is_unsure and (not integer(sale[5]) or not integer(sale[6]) or not sale[1]) then
  redis.call('HDEL', KEYS[1], 'version')
end
if not integer(sale[9]) then
  redis.call('HSET', KEYS[1], 'created', ARGV[11])
end
-- The sale and its buyers agree on the number of changes, so the sale was neither lost nor rolled back.
local is_kept = damaged == 'stock' and not other and known[4] == ARGV[3] and ARGV[12] == ''
  and redis.call('HEXISTS', KEYS[1], 'cutting') == 0
local version = is_unsure and string.format('%.0f', newest or 0) or take()
if not is_unsure then
  redis.call('HDEL', KEYS[1], 'cutting', 'cut', 'cutter', 'cut_until', 'oversold')
end
redis.call('HSET', KEYS[1], 'restoring', ARGV[1], 'restore_until', string.format('%.0f', now + tonumber(ARGV[2])),
  'found', table.concat(found, ','))
redis.call('HSET', KEYS[3], 'restoring', ARGV[1])
return {is_unsure and 'unsure' or is_kept and 'kept' or 'begun', version, unpack(found)}
