#!lua
-- Claims entries that were idle for long enough, and counts a delivery for each. Unlike XAUTOCLAIM, it returns no bodies:
-- Redis looks up each of them alone, and a range at a fraction of the time.
--
-- XCLAIM drops entries without a body from the pending list. They are recorded atomically, so that their orders are not
-- lost if the consumer dies.
--
-- KEYS  1 orders (stream)  2 gone (set of entries)
-- ARGV  1 group  2 consumer  3 minimum idle time (ms)  4 first entry  5 maximum number of entries
--
-- Returns {claimed entries, entries without a body}, each in order; both are empty at the end of the list

local idle = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], ARGV[4], '+', ARGV[5])

local claimed = {}
local function claim(ids, deliveries)
  -- In chunks, because `unpack` has a limit.
  for from = 1, #ids, 4000 do
    local call = {'XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3]}
    for i = from, math.min(from + 3999, #ids) do
      call[#call + 1] = ids[i]
    end
    for _, option in ipairs({'RETRYCOUNT', deliveries + 1, 'JUSTID'}) do
      call[#call + 1] = option
    end
    for _, id in ipairs(redis.call(unpack(call))) do
      claimed[id] = true
    end
  end
end

local by_deliveries = {}
for _, row in ipairs(idle) do
  local ids = by_deliveries[row[4]] or {}
  by_deliveries[row[4]] = ids
  ids[#ids + 1] = row[1]
end
for deliveries, ids in pairs(by_deliveries) do
  claim(ids, deliveries)
end

local there, gone = {}, {}
for _, row in ipairs(idle) do
  local list = claimed[row[1]] and there or gone
  list[#list + 1] = row[1]
end
for from = 1, #gone, 4000 do
  redis.call('SADD', KEYS[2], unpack(gone, from, math.min(from + 3999, #gone)))
end
return {there, gone}
