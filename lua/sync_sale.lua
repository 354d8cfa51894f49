#!lua
-- Brings Redis' copy of a sale up to what SQL committed. Safe to repeat, and an older copy never wins.
--
-- KEYS  1 sale (hash)  2 stock (string)  3 buyers (hash place -> order)
-- ARGV  1 version  2 title  3 begin (ms, 0 = at once)  4 end (ms, 0 = never)  5 state  6 initial
--       7 limit (orders a user)  8 "own" from whoever was cutting this sale, else ""
--
-- Returns 1 when this version was taken over, 0 when Redis had this one or a newer one, or -1 while a cut of
--   this version or a newer one is under way (cut.lua): ask again soon.
--
-- The stock follows from `initial` by difference, so that pieces sold meanwhile stay sold.
-- Where the stock is missing, it is what the buyers leave of `initial`.

local known = redis.call('HMGET', KEYS[1], 'version', 'initial', 'cutting', 'cut_until')
local stock = redis.call('GET', KEYS[2])
local have = tonumber(known[1] or '')
if have and stock and have >= tonumber(ARGV[1]) then
  return 0
end
if stock and known[3] and tonumber(known[3]) >= tonumber(ARGV[1]) and ARGV[8] ~= 'own' then
  -- Pieces put back now could be sold before SQL takes them out.
  local time = redis.call('TIME')
  if time[1] * 1000 + math.floor(time[2] / 1000) < tonumber(known[4]) then
    return -1
  end
end
if stock and known[2] then
  redis.call('INCRBY', KEYS[2], tonumber(ARGV[6]) - tonumber(known[2]))
else
  redis.call('SET', KEYS[2], tonumber(ARGV[6]) - redis.call('HLEN', KEYS[3]))
end
redis.call('HDEL', KEYS[1], 'cutting', 'cut_until')
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'title', ARGV[2], 'begin', ARGV[3], 'end', ARGV[4],
  'state', ARGV[5], 'initial', ARGV[6], 'limit', ARGV[7])
return 1
