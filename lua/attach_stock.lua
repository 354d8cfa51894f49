#!lua
-- Sets the stock of a sale of another program, unless its stock or stream has changed since a plan was made, or the sale
-- is moving to an engine.
--
-- KEYS  1 stock (string)  2 stream  3 mark of a sale that moves or has moved (string)
-- ARGV  1 stock in the plan, empty if there was none  2 last ID of the stream in the plan, empty without a stream
--       3 new stock
--
-- Returns 1, or 0 if something has changed; then nothing is set.

local info = ARGV[2] ~= '' and redis.call('XINFO', 'STREAM', KEYS[2]) or {}
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' and info[i + 1] ~= ARGV[2] then
    return 0
  end
end
if redis.call('EXISTS', KEYS[3]) == 1 or (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL')
return 1
