#!lua
-- Renames a key of another type than it should have, so that a new one can take its place.
--
-- KEYS  1 key  2 its new name; what was there is replaced
-- ARGV  1 type that the key should have
--
-- Returns the type that was found, or false where the key is as it should be, or is not there.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' or kind == ARGV[1] then
  return false
end
redis.call('RENAME', KEYS[1], KEYS[2])
return kind
