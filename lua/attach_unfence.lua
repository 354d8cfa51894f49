#!lua
-- Gives the stock of a sale that has not moved its name again, and removes the mark.
--
-- KEYS  1 stock (string)  2 renamed stock (string)  3 mark (string)
-- ARGV  1 mark of this run
--
-- Returns 1, 0 if another run has taken over, or -1 if the stock was loaded again; then nothing is written.

if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return 0
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  if redis.call('EXISTS', KEYS[1]) == 1 then
    return -1
  end
  redis.call('RENAME', KEYS[2], KEYS[1])
end
redis.call('DEL', KEYS[3])
return 1
