#!lua
-- XAUTOCLAIM, which drops entries without a body from the pending list. They are recorded atomically, so that
-- their orders are not lost if the consumer dies.
--
-- KEYS  1 orders (stream)  2 gone (set of entries)
-- ARGV  1 group  2 consumer  3 minimum idle time (ms)  4 first entry  5 maximum number of entries
--
-- Returns what XAUTOCLAIM returns: {entry to continue from, entries, entries without a body}

local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
for from = 1, #claimed[3], 4000 do
  redis.call('SADD', KEYS[2], unpack(claimed[3], from, math.min(from + 3999, #claimed[3])))
end
return claimed
