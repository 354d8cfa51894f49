#!lua
-- Names the generation of order IDs: it ends when this server is restarted, or has lost what the nodes have reconciled.
--
-- KEYS  1 reconciled (hash node -> server run ID that it has reconciled; field ":ids": the generation)
-- ARGV  1 server run ID  2 unique text, for a new generation
--
-- Returns the name, which begins with the run ID.

local run, known = ARGV[1] .. ':', redis.call('HGET', KEYS[1], ':ids')
if known and string.sub(known, 1, #run) == run then
  return known
end
redis.call('HSET', KEYS[1], ':ids', run .. ARGV[2])
return run .. ARGV[2]
