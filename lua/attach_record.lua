#!lua
-- Records that a sale returns from an engine to another program, or removes the record.
--
-- KEYS  1 stock (string)  2 renamed stock (string)  3 mark (string)  4 record (string)
-- ARGV  1 mark of this run  2 record, empty to remove it
--
-- Returns 1, 0 if another run has taken over, or -1 if there is a stock; then nothing is written.

if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[4])
  return 1
end
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  return -1
end
redis.call('SET', KEYS[4], ARGV[2])
return 1
