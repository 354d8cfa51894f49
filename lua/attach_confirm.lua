#!lua
-- Confirms that the order of an entry may be committed: the lock of its user is held, and renewed, and the program still
-- promises the piece.
--
-- KEYS  1 stream  2 stock  3 buyers (set)  4 mark of a sale that moves or has moved to an engine (string)
--       5 lock of the user (hash: owner -> depth), if there is one
-- ARGV  1 owner of the lock  2 its lease in milliseconds  3... as in `promise.lua`
--
-- Returns 1, or why it may not:
--   0 the lock is lost  2 more entries were added than are read here  5 its sale has the mark
--   6 the program has given the piece back

if KEYS[5] then
  -- WRONGTYPE if another program holds the lock, as a string.
  if redis.pcall('HEXISTS', KEYS[5], ARGV[1]) ~= 1 then
    return 0
  end
  redis.call('PEXPIRE', KEYS[5], ARGV[2])
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return 5
end
local promised = promise(KEYS[1], KEYS[2], KEYS[3], 3)
return promised == 0 and 6 or promised
