-- wrk script: each request asks for a piece with the next token, and the answers are counted by status.
--
--     TOKENS=tokens.txt wrk -t 2 -c 64 -d 10s -s assets/wrk/seckill.lua http://127.0.0.1:8080/voucher-order/seckill/1
--
-- Each thread has a share of the tokens; at the end of the file it begins again. Put the number of threads in
-- THREADS if it is not 2. With LIMIT, a thread ends once it has sent that many requests.

local threads = {}

function setup(thread)
  thread:set('number', #threads)
  table.insert(threads, thread)
end

function init(args)
  local file = assert(os.getenv('TOKENS'), 'TOKENS must name a file with a token per line')
  local count = tonumber(os.getenv('THREADS') or 2)
  tokens, statuses, sent, asked = {}, {}, 0, 0
  local line = 0
  for token in io.lines(file) do
    if line % count == number then
      table.insert(tokens, token)
    end
    line = line + 1
  end
  assert(#tokens > 0, file .. ' has too few tokens')
  limit = tonumber(os.getenv('LIMIT') or math.huge)
end

function request()
  asked = asked + 1
  return wrk.format('POST', nil, { authorization = tokens[(asked - 1) % #tokens + 1] })
end

function response(status)
  statuses[status] = (statuses[status] or 0) + 1
  sent = sent + 1
  if sent >= limit then
    wrk.thread:stop()
  end
end

function done(summary)
  local sums = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get('statuses')) do
      sums[status] = (sums[status] or 0) + count
    end
  end
  local names = { [200] = 'admitted', [401] = 'no session', [404] = 'not loaded', [409] = 'duplicate',
    [410] = 'sold out or ended', [425] = 'not started', [429] = 'limited', [503] = 'busy', [504] = 'unconfirmed' }
  local seen = {}
  for status in pairs(sums) do
    table.insert(seen, status)
  end
  table.sort(seen)
  for _, status in ipairs(seen) do
    print(string.format('%d %-18s %d', status, names[status] or '', sums[status]))
  end
end
