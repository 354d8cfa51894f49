#!lua
-- Renames the keys of shards that an earlier version sold as vouchers of their own, under other IDs. Idempotent.
--
-- KEYS  for each shard: sale, stock, buyers and tally as that version named them, then as they are named now
-- ARGV  for each shard: its sale, and the ID that it had
--
-- Returns the number of renamed keys. Those of a shard stay if it has keys under its present names, or if the sale under
-- the earlier names is another one. The field `former` keeps the ID, for a database that has lost the sale.

local renamed = 0
for shard = 1, #ARGV / 2 do
  local first = (shard - 1) * 8
  local is_hash = redis.call('TYPE', KEYS[first + 1]).ok == 'hash'
  local of = is_hash and redis.call('HGET', KEYS[first + 1], 'shard')
  local is_other = of and string.match(of, '^%d+') ~= ARGV[shard * 2 - 1]
  if not is_other and redis.call('EXISTS', KEYS[first + 5], KEYS[first + 6], KEYS[first + 7]) == 0 then
    for i = first + 1, first + 4 do
      if redis.call('EXISTS', KEYS[i]) == 1 then
        redis.call('RENAME', KEYS[i], KEYS[i + 4])
        renamed = renamed + 1
      end
    end
    if is_hash then
      redis.call('HSET', KEYS[first + 5], 'former', ARGV[shard * 2])
    end
  end
end
return renamed
