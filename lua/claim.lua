#!lua
-- Transfers pending entries from one consumer to another. The delivery count does not change.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  2 to  3 from  4... entries
--
-- Returns {transferred, entries that `from` no longer holds, entries without a body, which are not moved}, or false if
-- consumer `to` does not exist.

local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then
      return reply[i + 1]
    end
  end
end

local there = false
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  there = there or field(consumer, 'name') == ARGV[2]
end
if not there then
  return false
end
local given, gone, without_body = {}, 0, 0
for i = 4, #ARGV do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[3]) == 0 then
    gone = gone + 1
  elseif #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) == 0 then
    -- A claim would drop it from the pending list, and it could not be rebuilt.
    without_body = without_body + 1
  else
    given[#given + 1] = ARGV[i]
  end
end
if #given > 0 then
  local claim = {'XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0}
  for _, entry in ipairs(given) do
    claim[#claim + 1] = entry
  end
  claim[#claim + 1] = 'JUSTID'
  redis.call(unpack(claim))
end
return {#given, gone, without_body}
