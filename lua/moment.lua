#!lua
-- Shared by other scripts, which are appended to it: one moment of a sale of another program, as a text that differs
-- from that of any other moment in which a buyer, an entry, an acknowledgement, a stock or a migration was added.
--
-- KEYS  those of the appended script
-- ARGV  those of the appended script
--
-- Returns nothing: it defines a function.

-- What the stream has: last ID, length, last delivered ID and number of pending entries; then stock, number of buyers, and
-- whether the sale has the mark of a migration. Without a stream, its key and group are empty.
local function moment(stream, group, stock, buyers, mark)
  local seen = {}
  if stream ~= '' and redis.call('TYPE', stream).ok == 'stream' then
    local info = redis.call('XINFO', 'STREAM', stream)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' or info[i] == 'length' then
        seen[#seen + 1] = tostring(info[i + 1])
      end
    end
    for _, found in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
      local fields = {}
      for i = 1, #found, 2 do
        fields[found[i]] = found[i + 1]
      end
      if fields['name'] == group then
        seen[#seen + 1] = fields['last-delivered-id']
        seen[#seen + 1] = tostring(fields['pending'])
      end
    end
  end
  local holds = redis.call('TYPE', stock).ok
  seen[#seen + 1] = holds
  if holds == 'string' then
    seen[#seen + 1] = redis.call('GETRANGE', stock, 0, 63)
  end
  holds = redis.call('TYPE', buyers).ok
  seen[#seen + 1] = holds
  if holds == 'set' then
    seen[#seen + 1] = tostring(redis.call('SCARD', buyers))
  end
  seen[#seen + 1] = tostring(redis.call('EXISTS', mark))
  return table.concat(seen, ' ')
end
