-- Prints what wrk counted as one line of JSON; latencies are in microseconds.
-- With `-- PATH COUNT` after the URL, requests are for PATH and a random number below COUNT instead.
init = function(arguments)
  if #arguments < 2 then
    return
  end
  local requests = {}
  for number = 0, arguments[2] - 1 do
    requests[number] = wrk.format("GET", arguments[1] .. number)
  end
  math.randomseed(1)
  request = function()
    return requests[math.random(0, #requests)]
  end
end

done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "bytes": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, ' ..
    '"connect_errors": %d, "read_errors": %d, "write_errors": %d, "status_errors": %d, "timeouts": %d}\n',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
