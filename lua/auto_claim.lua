#!lua
-- XAUTOCLAIM, which drops entries without a body from the pending list. They are noted in the same step, or their
-- orders would be forgotten with a consumer that dies now.
--
-- KEYS  1 orders (stream)  2 gone (set of entries)
-- ARGV  1 group  2 consumer  3 idle for that long (ms)  4 first entry  5 most entries
--
-- Returns what XAUTOCLAIM returns: {entry to go on from, entries, entries without a body}

local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
for from = 1, #claimed[3], 4000 do
  redis.call('SADD', KEYS[2], unpack(claimed[3], from, math.min(from + 3999, #claimed[3])))
end
return claimed
