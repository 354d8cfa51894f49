#!lua
-- Replaces an order stream whose last ID is in the far future with a new one that follows the clock again: Redis has
-- no command that lowers the last ID below a deleted entry. Unacknowledged entries are added to the new stream in order,
-- under new IDs; the old stream is kept for a while.
--
-- KEYS  1 orders (stream)  2 new name of the old stream, overwritten if it exists  3 dead (stream)  4 gone (set)
--       5 watermark (hash)
-- ARGV  1 group  2 IDs further ahead of the clock than this are in the far future (ms)  3 keep the old stream for (ms)
--       4 reason for the dead letters  5 its data (JSON)  then the entries that become dead letters
--
-- Returns {entries in the new stream, dead letters}, or false if the last ID is not in the far future.

local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
if info.err then
  return false
end
local last = field(info, 'last-generated-id')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(string.match(last, '^%d+')) <= now + tonumber(ARGV[2]) then
  return false
end
local at = string.format('%.0f', now)
local foreign = {}
for i = 6, #ARGV do
  foreign[ARGV[i]] = true
end

local delivered = false
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  if field(group, 'name') == ARGV[1] then
    delivered = field(group, 'last-delivered-id')
  end
end

redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')

local kept, dead, newest = 0, 0, at .. '-0'

local function bury(id, body, consumer, deliveries)
  local letter = {'entry', id, 'reason', ARGV[4], 'why', ARGV[5], 'consumer', consumer, 'deliveries', deliveries, 'at', at}
  -- `unpack` has a limit; a body with more than 3,000 fields is truncated.
  for i = 1, math.min(#body, 6000), 2 do
    letter[#letter + 1] = 'body:' .. body[i]
    letter[#letter + 1] = body[i + 1]
  end
  local added = redis.pcall('XADD', KEYS[3], '*', unpack(letter))
  return not (type(added) == 'table' and added.err)
end

local function move(id, body, consumer, deliveries)
  if foreign[id] and bury(id, body, consumer, deliveries) then
    dead = dead + 1
  else
    newest = redis.call('XADD', KEYS[1], '*', unpack(body, 1, math.min(#body, 6000)))
    kept = kept + 1
  end
end

if delivered then
  local from = '-'
  while from do
    local page = redis.call('XPENDING', KEYS[2], ARGV[1], from, '+', 1000)
    for _, row in ipairs(page) do
      local found = redis.call('XRANGE', KEYS[2], row[1], row[1])[1]
      if found then
        move(row[1], found[2], row[2], tostring(row[4]))
      else
        redis.call('SADD', KEYS[4], row[1])
      end
    end
    from = #page == 1000 and '(' .. page[1000][1]
  end
end
local from = delivered and '(' .. delivered or '-'
while from do
  local page = redis.pcall('XRANGE', KEYS[2], from, '+', 'COUNT', 1000)
  -- No ID follows the largest one, and Redis rejects such a range.
  if page.err then
    break
  end
  for _, entry in ipairs(page) do
    move(entry[1], entry[2], '', '0')
  end
  from = #page == 1000 and '(' .. page[1000][1]
end
-- The count of added entries must not decrease: a decrease means lost entries.
local added = field(info, 'entries-added') + kept
redis.call('XSETID', KEYS[1], newest, 'ENTRIESADDED', added)
local known = redis.pcall('HGET', KEYS[5], 'orders')
if integer(known) and integer(known) <= added then
  redis.call('HSET', KEYS[5], 'orders', added, 'last_orders', newest)
  verify_until_now(KEYS[5], newest)
end
return {kept, dead}
