#!lua
-- XCLAIM, but not of entries without a body: it would drop them from the pending list, and nobody would rebuild
-- their orders.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  2 consumer  3 idle for that long (ms)  4... entries
--
-- Returns the ids of the entries that are the consumer's now. It is no delivery.

local claim = {'XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3]}
for i = 4, #ARGV do
  if #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) > 0 then
    claim[#claim + 1] = ARGV[i]
  end
end
if #claim == 5 then
  return {}
end
claim[#claim + 1] = 'JUSTID'
return redis.call(unpack(claim))
