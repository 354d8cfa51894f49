#!lua
-- Names the generation of order IDs: it ends when this server is restarted, or has lost what the nodes have reconciled.
-- One that follows a clean stop goes on from the former one: nothing was lost in between.
--
-- KEYS  1 reconciled (hash node -> server run ID that it has reconciled; fields ":ids": the generation, and ":ids_before": the
--         one that it goes on from, or none)
--       2 stopped (string: the run of the server in which the last node left)
-- ARGV  1 server run ID  2 unique text, for a new generation
--
-- Returns the name, which begins with the run ID, and the one that it goes on from, or "".

local run, known = ARGV[1] .. ':', redis.call('HGET', KEYS[1], ':ids')
local stopped = redis.pcall('GET', KEYS[2])
if known and string.sub(known, 1, #run) == run then
  -- IDs are issued again, so it no longer proves that none was lost.
  if stopped == ARGV[1] then
    redis.call('DEL', KEYS[2])
  end
  return {known, redis.call('HGET', KEYS[1], ':ids_before') or ''}
end
local new, before = run .. ARGV[2], ''
if known and type(stopped) == 'string' and string.sub(known, 1, #stopped + 1) == stopped .. ':' then
  before = known
end
redis.call('HSET', KEYS[1], ':ids', new, ':ids_before', before)
return {new, before}
