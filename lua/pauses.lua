#!lua
-- Shared by the scripts of the login: pauses that grow, and counts of a minute. They are separate from `integrity.lua`,
-- because they are about no sale.
--
-- KEYS  those of the script that follows
-- ARGV  those of the script that follows
--
-- Returns nothing: it defines `left`, `strike`, `until_next` and `count`.
--
-- A pause is a hash: n (strikes), until (ms of Redis' clock). It is forgotten `forget` ms after the pause has ended, so that
-- each key expires.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Milliseconds until the pause of a key ends; 0 without one.
local function left(key)
  return math.max((tonumber(redis.call('HGET', key, 'until') or '0') or 0) - now, 0)
end

-- Counts a strike; from the one numbered `free`, each makes a pause twice as long as the one before.
local function strike(key, free, first, longest, forget)
  local n = (tonumber(redis.call('HGET', key, 'n') or '0') or 0) + 1
  local pause = 0
  if n >= free then
    pause = math.min(first * 2 ^ (n - free), longest)
  end
  redis.call('HSET', key, 'n', string.format('%.0f', n), 'until', string.format('%.0f', now + pause))
  redis.call('PEXPIRE', key, string.format('%.0f', pause + forget))
end

-- Milliseconds until a key may be counted again; 0 if it may now.
local function until_next(key, limit)
  if tonumber(redis.call('GET', key) or '0') < limit then
    return 0
  end
  return math.max(redis.call('PTTL', key), 1)
end

-- Counts in a minute that begins with the first one.
local function count(key)
  if redis.call('INCRBY', key, 1) == 1 then
    redis.call('PEXPIRE', key, 60000)
  end
end
