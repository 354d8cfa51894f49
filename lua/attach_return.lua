#!lua
-- Gives a sale back to another program: writes its buyers and its stock, removes the mark, and records that this is done.
-- The program sells it from this moment on.
--
-- KEYS  1 stock (string)  2 renamed stock (string)  3 mark (string)  4 record (string)  5 buyers (set)
--       6 new buyers (set)
-- ARGV  1 mark of this run  2 record so far  3 record of what is done  4 stock  5 number of new buyers
--
-- Returns 1, 0 if another run has taken over or the new buyers are not complete, or -1 if there is a stock; then nothing is
-- written.

if redis.call('GET', KEYS[3]) ~= ARGV[1] or redis.call('GET', KEYS[4]) ~= ARGV[2]
  or redis.call('SCARD', KEYS[6]) ~= tonumber(ARGV[5]) then
  return 0
end
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  return -1
end
if ARGV[5] == '0' then
  redis.call('DEL', KEYS[5])
else
  redis.call('RENAME', KEYS[6], KEYS[5])
end
redis.call('SET', KEYS[1], ARGV[4])
redis.call('SET', KEYS[4], ARGV[3])
redis.call('DEL', KEYS[3])
return 1
