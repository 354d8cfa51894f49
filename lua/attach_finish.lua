#!lua
-- Deletes what a sale that has moved to an engine leaves behind: its entries, or without any, its renamed stock.
--
-- KEYS  1 stock (string)  2 renamed stock (string)  3 mark (string)  4 stream
-- ARGV  1 mark of this run  2 group  3.. entries
--
-- Returns 1, 0 if another run has taken over, or -1 if the stock was loaded again; then nothing is written.

if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return 0
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return -1
end
if #ARGV == 2 then
  redis.call('DEL', KEYS[2])
  return 1
end
redis.call('XACK', KEYS[4], ARGV[2], unpack(ARGV, 3))
redis.call('XDEL', KEYS[4], unpack(ARGV, 3))
return 1
