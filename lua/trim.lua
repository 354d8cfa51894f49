#!lua
-- Trims the order stream by age and by length, but never an entry that a group has not acknowledged.
--
-- KEYS  1 orders (stream)
-- ARGV  1 age to keep (ms)  2 maximum number of entries to trim  3 approximate number of entries to keep, whatever their age
--
-- Returns {trimmed, first entry kept because a group needs it, or false}

local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if groups.err or #groups == 0 then
  return {0, false}
end

local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then
      return reply[i + 1]
    end
  end
end

local function parts(id)
  local ms, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

local function earlier(a, b)
  local am, an = parts(a)
  local bm, bn = parts(b)
  return am < bm or (am == bm and an < bn)
end

local needed, pending = false, false
for _, group in ipairs(groups) do
  -- The oldest pending entry; without one, entries up to the last delivered one may be trimmed.
  local oldest = redis.call('XPENDING', KEYS[1], field(group, 'name'))[2]
  local is_pending = oldest and true
  if not oldest then
    local ms, number = parts(field(group, 'last-delivered-id'))
    -- A rewound group is at the end of a millisecond, a sequence number that Lua cannot increment.
    if number < 2 ^ 53 then
      oldest = string.format('%.0f-%.0f', ms, number + 1)
    elseif ms + 1 < 2 ^ 64 then
      oldest = string.format('%.0f-0', ms + 1)
    else
      oldest = '18446744073709551615-18446744073709551615'
    end
  end
  if not needed or earlier(oldest, needed) then
    needed, pending = oldest, is_pending
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local old = string.format('%.0f-0', math.max(0, now - tonumber(ARGV[1])))
local floor = earlier(needed, old) and needed or old
local most = tonumber(ARGV[2])
local trimmed = redis.call('XTRIM', KEYS[1], 'MINID', '~', floor, 'LIMIT', most)
-- The first entry that a group needs: there is none at the end of a stream, whose next ID is not the ID of an entry.
local first = pending and needed
if not pending then
  local after = redis.call('XRANGE', KEYS[1], needed, '+', 'COUNT', 1)[1]
  first = after and after[1]
end
local held = first and earlier(first, old)
local excess = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[3])
if excess > 0 and trimmed < most then
  -- By number, but still by ID: MAXLEN would not stop at entries that a group needs.
  trimmed = trimmed + redis.call('XTRIM', KEYS[1], 'MINID', '~', needed, 'LIMIT', math.min(excess, most - trimmed))
  local left = redis.call('XLEN', KEYS[1]) - tonumber(ARGV[3])
  local oldest = left > 0 and redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  held = held or (oldest and not earlier(oldest[1], needed))
end
return {trimmed, held and first or false}
