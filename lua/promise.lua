#!lua
-- Shared by other scripts, which are appended to it: whether another program still promises a piece to the user of an
-- entry.
--
-- KEYS  those of the appended script
-- ARGV  those of the appended script
--
-- Returns nothing: it defines a function.

-- Entries that are read at once.
local MOST = 1000

-- The arguments from `at` on: user, empty if no promise is asked for; 1 if a missing stock of the sale will do, whether or
-- not the user is a buyer; ID of the last entry that was read; field and value of the sale, field
-- of the user, field and value of the order.
--
-- Returns 1 if it does, 0 if it does not: the user is no buyer, or has bought again since, which is another order. Returns
-- 2 if more entries were added than are read here.
local function promise(stream, stock, buyers, at)
  local user, order = ARGV[at], ARGV[at + 7]
  if user == '' then
    return 1
  end
  if redis.pcall('SISMEMBER', buyers, user) ~= 1
    and (ARGV[at + 1] ~= '1' or redis.call('EXISTS', stock) == 1) then
    return 0
  end
  local added = redis.call('XRANGE', stream, '(' .. ARGV[at + 2], '+', 'COUNT', MOST)
  local newest = order
  for _, entry in ipairs(added) do
    local fields = {}
    -- The first field of a name counts.
    for i = #entry[2] - 1, 1, -2 do
      fields[entry[2][i]] = entry[2][i + 1]
    end
    if fields[ARGV[at + 3]] == ARGV[at + 4] and fields[ARGV[at + 5]] == user then
      newest = fields[ARGV[at + 6]] or ''
    end
  end
  if newest ~= order then
    return 0
  end
  return #added == MOST and 2 or 1
end
