#!lua
-- Names the generation of order IDs: it ends when this server is restarted, or has lost what the nodes have reconciled.
--
-- KEYS  1 reconciled (hash node -> server run ID that it has reconciled; fields ":ids": the generation, ":ids_before": the one
--         before it, ":ids_closed": see close_ids.lua)
-- ARGV  1 server run ID  2 unique text, for a new generation
--       3 value of ":ids_closed" that SQL knows to be over: numbers may be leased again; or ""
--
-- Returns the name, which begins with the run ID, the one before it or "", and ":ids_closed" or "".

local closed = redis.call('HGET', KEYS[1], ':ids_closed')
if closed and closed == ARGV[3] then
  redis.call('HDEL', KEYS[1], ':ids_closed')
  closed = nil
end
local run, known = ARGV[1] .. ':', redis.call('HGET', KEYS[1], ':ids')
if known and string.sub(known, 1, #run) == run then
  return {known, redis.call('HGET', KEYS[1], ':ids_before') or '', closed or ''}
end
local new = run .. ARGV[2]
redis.call('HSET', KEYS[1], ':ids', new, ':ids_before', known or '')
return {new, known or '', closed or ''}
