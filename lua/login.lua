#!lua
-- Checks a login code, within the bounds of wrong ones; the right one is used up. A wrong code leaves the right one valid.
--
-- KEYS  1 code (string)  2 known (string: the phone has logged in from this network)
--       3 pause of the phone in this network (hash)  4 that of the phone in all networks that are not known (hash)
--       5 that of the network (hash)  6 wrong codes of all in a minute (string)
-- ARGV  1 the code of the client  2 how long a network stays known (ms)  3 most wrong codes of all in a minute
--       4 to 7 free, first, longest and forget of pause 3  8 to 11 those of pause 4  12 to 15 those of pause 5
--
-- Returns {1, 0} if the code is right, {0, 0} if it is wrong, {-1, ms until a code is checked} beyond a bound.

local known = redis.call('EXISTS', KEYS[2]) == 1
local wait = left(KEYS[3])
if not known then
  wait = math.max(wait, left(KEYS[4]), left(KEYS[5]), until_next(KEYS[6], tonumber(ARGV[3])))
end
if wait > 0 then
  return {-1, wait}
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[3])
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
  return {1, 0}
end
for i = 3, known and 3 or 5 do
  local at = 4 * (i - 2)
  strike(KEYS[i], tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]))
end
if not known then
  count(KEYS[6])
end
return {0, 0}
