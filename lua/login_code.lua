#!lua
-- Grants a login code for a phone, within its bounds. A code that is still valid is granted again and lasts longer, so that
-- a request of another client takes no code from its owner.
--
-- KEYS  1 code (string)  2 known (string: the phone has logged in from this network)
--       3 pause of the codes of the phone in this network (hash)  4 that of the phone in all networks that are not known
--       5 codes of the network in a minute (string)  6 codes of all in a minute (string)
-- ARGV  1 a new code  2 how long it lasts (ms)  3 free, 4 first, 5 longest and 6 forget of a pause
--       7 most codes of a network in a minute  8 most codes of all
--
-- Returns {0, code}, or {ms until a code is granted, ''}.

local known = redis.call('EXISTS', KEYS[2]) == 1
local pause = known and KEYS[3] or KEYS[4]
local wait = math.max(left(pause), until_next(KEYS[6], tonumber(ARGV[8])))
if not known then
  wait = math.max(wait, until_next(KEYS[5], tonumber(ARGV[7])))
end
if wait > 0 then
  return {wait, ''}
end
strike(pause, tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))
count(KEYS[6])
if not known then
  count(KEYS[5])
end
local code = redis.call('GET', KEYS[1]) or ARGV[1]
redis.call('SET', KEYS[1], code, 'PX', ARGV[2])
return {0, code}
