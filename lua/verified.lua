#!lua flags=allow-oom
-- The entries of the order stream that need no check against the buyers: scripts of this program added each of them
-- with its buyer.
--
-- KEYS  1 orders (stream)  2 watermark (hash)
-- ARGV  none
--
-- Returns {after this ID, up to this one}, or false if every entry needs a check: the watermark does not match the
-- stream, because entries were lost or another program added some. Without "no-writes" a replica, which may be
-- behind, rejects the script.

local known = redis.pcall('HMGET', KEYS[2], 'orders', 'last_orders', 'unverified_until')
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
if known.err or info.err or not known[3] or field(info, 'entries-added') ~= integer(known[1])
  or field(info, 'last-generated-id') ~= known[2] then
  return false
end
return {known[3], known[2]}
