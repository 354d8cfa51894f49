#!lua
-- Does nothing. Without flags, Redis refuses it whenever it takes no writes: out of memory, too few replicas, a disk
-- that failed, a replica.
--
-- KEYS  1 a key of the server that is asked
-- ARGV  none
--
-- Returns 1.

return 1
