#!lua
-- XCLAIM, except for entries without a body: it would drop them from the pending list, and their orders could not be
-- rebuilt.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  2 consumer  3 minimum idle time (ms)  4... entries
--
-- Returns the IDs of the claimed entries. The delivery count does not change.

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
