#!lua
-- Claims entries that have been idle for long enough, and counts a delivery for each. Unlike XAUTOCLAIM, it returns IDs
-- only: the caller reads the bodies as a range, which takes Redis a fraction of the time.
--
-- Like XAUTOCLAIM, XCLAIM drops entries without a body from the pending list, whatever their idle time. They are recorded
-- atomically, so that their orders are not lost if the consumer dies.
--
-- KEYS  1 orders (stream)  2 gone (set of entries)
-- ARGV  1 group  2 consumer  3 minimum idle time (ms)  4 first entry  5 maximum number of entries to look at
--       6 maximum number of deliveries
--
-- Returns {last entry looked at, or false at the end of the list, claimed entries, entries without a body,
--   {entry, deliveries}... of claimed entries that were delivered more often}, in any order

-- In chunks, because `unpack` has a limit.
local chunk = 4000

local page = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[4], '+', ARGV[5])
local by_deliveries = {}
for _, row in ipairs(page) do
  -- Larger numbers would be sent in exponential notation.
  local deliveries = math.min(row[4] + 1, 1000000000)
  local ids = by_deliveries[deliveries] or {}
  by_deliveries[deliveries] = ids
  ids[#ids + 1] = row[1]
end

local claimed, often = {}, {}
for deliveries, ids in pairs(by_deliveries) do
  for from = 1, #ids, chunk do
    local claim = {'XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3]}
    for i = from, math.min(from + chunk - 1, #ids) do
      claim[#claim + 1] = ids[i]
    end
    for _, option in ipairs({'RETRYCOUNT', deliveries, 'JUSTID'}) do
      claim[#claim + 1] = option
    end
    for _, id in ipairs(redis.call(unpack(claim))) do
      claimed[#claimed + 1] = id
      if deliveries > tonumber(ARGV[6]) then
        often[#often + 1] = {id, deliveries}
      end
    end
  end
end

local gone = {}
if #claimed < #page then
  local is_pending = {}
  for _, row in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[4], page[#page][1], ARGV[5])) do
    is_pending[row[1]] = true
  end
  for _, row in ipairs(page) do
    if not is_pending[row[1]] then
      gone[#gone + 1] = row[1]
    end
  end
  for from = 1, #gone, chunk do
    redis.call('SADD', KEYS[2], unpack(gone, from, math.min(from + chunk - 1, #gone)))
  end
end
return {#page == tonumber(ARGV[5]) and page[#page][1], claimed, gone, often}
