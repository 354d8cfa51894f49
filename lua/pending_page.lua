#!lua flags=no-writes
-- One page of the pending list with the bodies of its entries.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  2 first entry ID  3 last entry ID  4 maximum number of entries  5 consumer (optional)
--
-- Returns a list of {entry, consumer, idle ms, deliveries, fields}; fields is false if the body is gone.

local page = {}
for i, row in ipairs(redis.call('XPENDING', KEYS[1], unpack(ARGV))) do
  local body = redis.call('XRANGE', KEYS[1], row[1], row[1])[1]
  page[i] = {row[1], row[2], row[3], row[4], body and body[2] or false}
end
return page
