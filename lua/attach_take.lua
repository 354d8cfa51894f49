#!lua
-- Claims an entry of another program's stream and locks its user, or moves it to the dead letters of `attach`: copied and
-- acknowledged in one step.
--
-- The lock has the form of Redisson's; SET NX of a plain lock fails on it as well. It is acquired in the step that claims
-- the entry: a consumer that receives an entry while its user is locked acknowledges it without an order.
--
-- KEYS  1 stream  2 dead letters (stream)  3 mark of a sale that moves or has moved to an engine (string)
--       4 stock  5 buyers (set)  6 lock of the user (hash: owner -> depth), if there is one
-- ARGV  1 group  2 consumer of `attach`  3 entry  4 shortest idle time in milliseconds  5 reason, empty to claim
--       6 consumer that held it before it was claimed, empty if none did
--       7 pending, undelivered, or passed: neither, and no consumer receives it again
--       8 owner of the lock  9 its lease in milliseconds  10...17 as in `promise.lua`
--       18... entries before it that are delivered with it and left alone: those of sales that have moved or of users
--         who are no buyers, and those that this run has not taken
--
-- Returns the state of the entry, and its fields if it has a body:
--   0 not as planned: processed or not the next one  1 held: a consumer received it since, or is alive  2 done
--   3 it has no body, which a claim would discard  4 the lock of its user is held  5 its sale has the mark
--   6 the service has given the piece back  7 more entries were added than are read here

local function info(command, ...)
  local all = {}
  for _, found in ipairs(redis.call('XINFO', command, ...)) do
    local fields = {}
    for i = 1, #found, 2 do
      fields[found[i]] = found[i + 1]
    end
    all[#all + 1] = fields
  end
  return all
end

-- Receives the entry, if it is the next one. Nothing else is received but what ARGV names.
local function deliver()
  for _, consumer in ipairs(info('CONSUMERS', KEYS[1], ARGV[1])) do
    if consumer['name'] ~= ARGV[2] and consumer['idle'] < tonumber(ARGV[4]) then
      return 1
    end
  end
  local last
  for _, group in ipairs(info('GROUPS', KEYS[1])) do
    if group['name'] == ARGV[1] then
      last = group['last-delivered-id']
    end
  end
  if not last then
    return 0
  end
  local next = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', #ARGV - 16)
  local before = {}
  for i = 18, #ARGV do
    before[ARGV[i]] = true
  end
  for i, found in ipairs(next) do
    if found[1] == ARGV[3] then
      redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', i, 'STREAMS', KEYS[1], '>')
      return 2
    elseif not before[found[1]] then
      return 0
    end
  end
  return 0
end

if redis.call('EXISTS', KEYS[3]) == 1 then
  return {5}
end
local promised = promise(KEYS[1], KEYS[4], KEYS[5], 10)
if promised ~= 1 then
  return {promised == 0 and 6 or 7}
end
if ARGV[5] == '' and KEYS[6] and redis.call('EXISTS', KEYS[6]) == 1 then
  return {4}
end
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not pending then
  if ARGV[5] ~= '' or ARGV[7] == 'pending' then
    return {0}
  elseif ARGV[7] == 'passed' then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'FORCE', 'JUSTID')
  else
    local delivered = deliver()
    if delivered ~= 2 then
      return {delivered}
    end
  end
-- The lock of `attach` proves that no other process works as its consumer.
elseif pending[2] ~= ARGV[2] and pending[3] < tonumber(ARGV[4]) then
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
if KEYS[6] then
  redis.call('HSET', KEYS[6], ARGV[8], '1')
  redis.call('PEXPIRE', KEYS[6], ARGV[9])
end
return {2, found[2]}
