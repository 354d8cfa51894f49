#!lua
-- Removes buyers of a sale of another program and sets its stock, unless anything has changed since it was compared, or
-- the sale moves to an engine.
--
-- KEYS  1 stream, empty if there is none  2 stock  3 buyers (set)  4 mark of a sale that moves or has moved (string)
-- ARGV  1 group  2 moment in which it was compared  3 new stock, empty to leave it  4... users to remove
--
-- Returns the moment afterwards, or nil if something has changed; then nothing is done.

if redis.call('EXISTS', KEYS[4]) == 1
  or moment(KEYS[1], ARGV[1], KEYS[2], KEYS[3], KEYS[4]) ~= ARGV[2] then
  return nil
end
for i = 4, #ARGV do
  redis.call('SREM', KEYS[3], ARGV[i])
end
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[2], ARGV[3], 'KEEPTTL')
end
return moment(KEYS[1], ARGV[1], KEYS[2], KEYS[3], KEYS[4])
