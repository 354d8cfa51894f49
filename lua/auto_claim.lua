#!lua
-- Claims entries that have been idle for long enough, and counts a delivery for each. Unlike XAUTOCLAIM, it returns IDs
-- only: the caller reads the bodies as a range, which takes Redis a fraction of the time.
--
-- Entries without a body are dropped from the pending list: those that were trimmed whatever their idle time, deleted
-- ones when they are claimed. They are recorded atomically, so that their orders are not lost if the consumer dies.
--
-- KEYS  1 orders (stream)  2 gone (set of entries)
-- ARGV  1 group  2 consumer  3 minimum idle time (ms)  4 first entry  5 maximum number of entries to look at
--
-- Returns {last entry looked at, or false at the end of the list, claimed entries, entries without a body}, oldest first

local page = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[4], '+', ARGV[5])
if #page == 0 then
  return {false, {}, {}}
end
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local trimmed = #page
if oldest then
  trimmed = #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[4], '(' .. oldest[1], ARGV[5])
end

-- Calls a command with as many IDs at once as `unpack` allows.
local function call(ids, options, ...)
  local replies = {}
  for from = 1, #ids, 4000 do
    local command = {...}
    for i = from, math.min(from + 3999, #ids) do
      command[#command + 1] = ids[i]
    end
    for _, option in ipairs(options) do
      command[#command + 1] = option
    end
    replies[#replies + 1] = redis.call(unpack(command))
  end
  return replies
end

local gone, asked, by_deliveries = {}, {}, {}
for i, row in ipairs(page) do
  if i <= trimmed then
    gone[i] = row[1]
  elseif row[3] >= tonumber(ARGV[3]) then
    asked[#asked + 1] = row[1]
    -- Larger numbers would be sent in exponential notation.
    local deliveries = math.min(row[4] + 1, 1000000000)
    local ids = by_deliveries[deliveries] or {}
    by_deliveries[deliveries] = ids
    ids[#ids + 1] = row[1]
  end
end
call(gone, {}, 'XACK', KEYS[1], ARGV[1])

local is_claimed = {}
for deliveries, ids in pairs(by_deliveries) do
  -- Idle for at least 0 ms: what is not claimed has no body.
  local replies = call(ids, {'RETRYCOUNT', deliveries, 'JUSTID'}, 'XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0)
  for _, claimed in ipairs(replies) do
    for _, id in ipairs(claimed) do
      is_claimed[id] = true
    end
  end
end
local claimed = {}
for _, id in ipairs(asked) do
  local list = is_claimed[id] and claimed or gone
  list[#list + 1] = id
end
call(gone, {}, 'SADD', KEYS[2])
return {#page == tonumber(ARGV[5]) and page[#page][1], claimed, gone}
