#!lua
-- Renames a key of the wrong type, so that a new one can take its place.
--
-- KEYS  1 key  2 its new name, overwritten if it exists
-- ARGV  1 expected type
--
-- Returns the type found, or false if the key has the expected type or does not exist.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' or kind == ARGV[1] then
  return false
end
redis.call('RENAME', KEYS[1], KEYS[2])
return kind
