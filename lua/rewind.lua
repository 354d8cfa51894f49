#!lua
-- Rewinds the group, or recreates it if it was destroyed, provided that the state still matches the preview. Every entry
-- so far is then checked against the buyers: some orders were closed since, and SQL may have lost that.
--
-- KEYS  1 orders (stream)  2 watermark (hash)
-- ARGV  1 group  2 ID after which the group continues  3 last delivered ID of the preview, or '' without
--       a group  4 first entry to redeliver  5 entries read up to there, or -1 if unknown
--
-- Returns 'done', or what has changed since the preview, without a change: 'destroyed', 'created' or 'moved_back' (the
-- group), 'trimmed' (the first entry no longer exists).

-- As text: Lua numbers do not have 64 bits.
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
    return 'created'
  end
elseif not delivered then
  return 'destroyed'
elseif earlier(delivered, ARGV[3]) then
  return 'moved_back'
end
if #redis.call('XRANGE', KEYS[1], ARGV[4], ARGV[4]) == 0 then
  return 'trimmed'
end
local read = ARGV[5]
local deleted = field(redis.call('XINFO', 'STREAM', KEYS[1]), 'max-deleted-entry-id')
if earlier(ARGV[2], deleted) then
  read = '-1' -- Entries are missing ahead: a count would make the lag permanently wrong.
end
verify_until_now(KEYS[2], field(redis.call('XINFO', 'STREAM', KEYS[1]), 'last-generated-id'))
local subcommand = delivered and 'SETID' or 'CREATE'
redis.call('XGROUP', subcommand, KEYS[1], ARGV[1], ARGV[2], 'ENTRIESREAD', read)
return 'done'
