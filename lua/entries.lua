#!lua flags=no-writes
-- A window of the order stream with the group's state of each entry.
--
-- KEYS  1 orders (stream)
-- ARGV  1 group  2 last entry of the window, or + for the newest  3 maximum number of entries
--
-- Returns {entries {id, fields}..., newest first; last delivered ID, or false without a group;
--   pending ones among them {id, consumer, idle ms, deliveries}..., oldest first; 1 if complete, else 0;
--   bytes of the stream, or false}

local found = redis.call('XREVRANGE', KEYS[1], ARGV[2], '-', 'COUNT', ARGV[3])
local delivered = false
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if not groups.err then
  for _, group in ipairs(groups) do
    local name, last
    for i = 1, #group, 2 do
      if group[i] == 'name' then
        name = group[i + 1]
      elseif group[i] == 'last-delivered-id' then
        last = group[i + 1]
      end
    end
    if name == ARGV[1] then
      delivered = last
    end
  end
end

-- Pending entries without a body count towards the limit.
local pending, most = {}, 2 * tonumber(ARGV[3])
if delivered and #found > 0 then
  pending = redis.call('XPENDING', KEYS[1], ARGV[1], found[#found][1], found[1][1], most)
end
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1])
return {found, delivered, pending, #pending < most and 1 or 0, type(bytes) == 'number' and bytes or false}
