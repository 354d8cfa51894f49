#!lua
-- Does nothing. Without flags, Redis rejects it whenever it rejects writes: out of memory, too few replicas, a failed
-- disk, a replica.
--
-- KEYS  1 a key of the server to test
-- ARGV  none
--
-- Returns 1.

return 1
