#!lua flags=no-writes
-- Reads entries of the cache that need not be loaded again yet.
--
-- KEYS  entries (strings)
-- ARGV  1 how long a value is served after it was fresh (ms)
--
-- Returns the value of each entry, or false if it is missing, not fresh, or of another type.

local stale, values = tonumber(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  local is_fresh = value and not value.err and redis.call('PTTL', key) > stale
  values[i] = is_fresh and value
end
return values
