#!lua flags=no-writes
-- The given entries of the pending list with their bodies; entries that are not pending are omitted.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  then entry IDs
--
-- Returns a list of {entry, consumer, idle ms, deliveries, fields}; fields is false if the body is gone.

local found = {}
for i = 2, #ARGV do
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
  if row then
    local body = redis.call('XRANGE', KEYS[1], row[1], row[1])[1]
    found[#found + 1] = {row[1], row[2], row[3], row[4], body and body[2] or false}
  end
end
return found
