#!lua
-- Moves the group back, or makes it where it was destroyed, if all is still as it was shown.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  2 id after which the group goes on  3 id up to which it was delivered when that was shown, or '' where
--       there was no group  4 first entry that is delivered again  5 entries read up to there, or -1 where nobody can tell
--
-- Returns one word: 'done', 'gone' (the group was destroyed), 'made' (somebody made the group), 'back' (somebody moved
-- the group back), 'trimmed' (the first entry is not there any more).

local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then
      return reply[i + 1]
    end
  end
end

-- As text: a number of Lua has no 64 bits.
local function smaller(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function earlier(a, b)
  local am, an = string.match(a, '^(%d+)-(%d+)$')
  local bm, bn = string.match(b, '^(%d+)-(%d+)$')
  if am ~= bm then
    return smaller(am, bm)
  end
  return smaller(an, bn)
end

local delivered = false
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if not groups.err then
  for _, group in ipairs(groups) do
    if field(group, 'name') == ARGV[1] then
      delivered = field(group, 'last-delivered-id')
    end
  end
end
if ARGV[3] == '' then
  if delivered then
    return 'made'
  end
elseif not delivered then
  return 'gone'
elseif earlier(delivered, ARGV[3]) then
  return 'back'
end
if #redis.call('XRANGE', KEYS[1], ARGV[4], ARGV[4]) == 0 then
  return 'trimmed'
end
local read = ARGV[5]
local deleted = field(redis.call('XINFO', 'STREAM', KEYS[1]), 'max-deleted-entry-id')
if earlier(ARGV[2], deleted) then
  read = '-1' -- Entries are missing ahead: a count would make the lag wrong for good.
end
local act = delivered and 'SETID' or 'CREATE'
redis.call('XGROUP', act, KEYS[1], ARGV[1], ARGV[2], 'ENTRIESREAD', read)
return 'done'
