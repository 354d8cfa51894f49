#!lua
-- Claims a stuck entry of another program's stream, or moves it to the dead letters of `attach`: copied and
-- acknowledged in one step.
--
-- KEYS  1 stream  2 dead letters (stream)
-- ARGV  1 group  2 consumer of `attach`  3 entry  4 shortest idle time in milliseconds  5 reason, empty to claim
--       6 consumer that held it before it was claimed, empty if none did
--
-- Returns the state of the entry, and its fields if it has a body:
--   0 not pending  1 held: its consumer received it since  2 done  3 it has no body, which a claim would discard

local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not pending then
  return {0}
end
-- The lock of `attach` proves that no other process works as its consumer.
if pending[2] ~= ARGV[2] and pending[3] < tonumber(ARGV[4]) then
  return {1}
end
if ARGV[5] ~= '' then
  bury(ARGV[3], {'reason', ARGV[5], 'consumer', ARGV[6],
    'deliveries', tostring(pending[4])})
  return {2}
end
local found = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])[1]
if not found then
  return {3}
end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')
return {2, found[2]}
