-- Load test with wrk: every token of a file is used once, by the thread that is the first to need one.
--
--   seckill users create --count 1000 --tokens tokens.txt
--   SECKILL_TOKENS=tokens.txt wrk -t 2 -c 64 -d 5 -s assets/wrk/seckill.lua http://127.0.0.1:8080/voucher-order/seckill/1
--
-- Set address_per_second = 0 in [http] of the config file: wrk is one address.
-- wrk runs for -d, even if the tokens are used up earlier: then its "Requests/sec" is too low.

local ffi = require("ffi")
ffi.cdef("int open(const char *, int, ...); long read(int, void *, size_t);")

local LINE = 33 -- 32 hexadecimal digits and a line feed
local NEVER = 86400000 -- milliseconds

local threads = {}
local line = ffi.new("char[?]", LINE)
local queue, first, last = {}, 1, 0
local token

-- Threads share no variables of Lua, but they can share an open file with its position.
function setup(thread)
  if not file then
    local path = os.getenv("SECKILL_TOKENS") or ""
    file = ffi.C.open(path, 0)
    if file < 0 then
      io.stderr:write("SECKILL_TOKENS must name the file of tokens, not '", path, "'\n")
      os.exit(2)
    end
  end
  thread:set("file", file)
  table.insert(threads, thread)
end

-- Called before each request. Once the tokens are used up, the connection stays idle.
function delay()
  if ffi.C.read(file, line, LINE) < LINE - 1 then
    return NEVER
  end
  last = last + 1
  queue[last] = ffi.string(line, LINE - 1)
  return 0
end

-- The queue is empty when wrk checks the script before the start, and when it repeats a request on a new connection.
function request()
  if first <= last then
    token, queue[first] = queue[first], nil
    first = first + 1
  end
  return wrk.format("POST", nil, { authorization = token })
end

-- In a global variable per status: wrk 4.1 cannot read a table of a thread.
function response(status)
  local name = "status" .. status
  _G[name] = (_G[name] or 0) + 1
end

function done()
  print("Answers by status:")
  for status = 100, 599 do
    local count = 0
    for _, thread in ipairs(threads) do
      count = count + (thread:get("status" .. status) or 0)
    end
    if count > 0 then
      print(string.format("  %d %9d", status, count))
    end
  end
end
