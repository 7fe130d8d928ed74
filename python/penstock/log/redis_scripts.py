"""What Redis does in one step for a log: appending, and the rights of a topic's feeders.

A topic is a stream. Feeds are fields of one hash by topic, `OWNER NUMBER` of the event that was appended last, LF and
the farewell; when they are given up, unless their owners say that they are alive, is in one sorted set. All are sent
whole each time: a server that was restarted, or another one in its place, knows no script by its hash.
"""

from typing import Final

__all__ = ["APPEND", "BURY", "CLAIM", "PUBLISH"]

_TOPIC: Final = """\
local function newest(key)
  return redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
end
local function is_finished(key)
  local last = newest(key)
  return last and last[2][3] == 'end'
end
local function append(key, channel, kind, blob, events, idle)
  local last, before = newest(key), '0-0'
  if last then
    if last[2][3] == 'end' then return false end
    before = last[1]
  end
  local id = redis.call('XADD', key, 'MAXLEN', '~', events, '*', 'before', before, kind, blob)
  redis.call('PEXPIRE', key, idle)
  redis.call('PUBLISH', channel, id .. ' ' .. before .. ' ' .. kind .. ' ' .. blob)
  return id
end
"""

PUBLISH: Final = (
    _TOPIC
    + """\
local events, idle, kind, blob, channel = unpack(ARGV)
return append(KEYS[1], channel, kind, blob, events, idle) or redis.error_reply('FINISHED')
"""
)

_FEEDS: Final = (
    _TOPIC
    + """\
local stream, feeds, limits = unpack(KEYS)
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function give_up(topic)
  redis.call('HDEL', feeds, topic)
  redis.call('ZREM', limits, topic)
end
local function number_of(feed, owner)
  if not feed or string.sub(feed, 1, #owner + 1) ~= owner .. ' ' then return nil end
  return tonumber(string.match(feed, '^%d+', #owner + 2))
end
local function farewell_of(feed)
  return string.sub(feed, string.find(feed, '\\n', 1, true) + 1)
end
"""
)

CLAIM: Final = (
    _FEEDS
    + """\
local topic, owner, lease, farewell = unpack(ARGV)
if redis.call('HEXISTS', feeds, topic) == 1 then return redis.error_reply('FED') end
if is_finished(stream) then return redis.error_reply('FINISHED') end
redis.call('HSET', feeds, topic, owner .. ' 0\\n' .. farewell)
redis.call('ZADD', limits, now() + lease, topic)
"""
)

# Number 0 appends nothing. One that does not follow on the last comes of what Redis has lost after it was confirmed.
APPEND: Final = (
    _FEEDS
    + """\
local topic, owner, lease, number, events, idle, kind, blob, channel = unpack(ARGV)
local feed = redis.call('HGET', feeds, topic)
local last = number_of(feed, owner)
number = tonumber(number)
if not last or number > last + 1 then
  return redis.error_reply(is_finished(stream) and 'FINISHED' or 'FED')
end
if number == last + 1 then
  if not append(stream, channel, kind, blob, events, idle) then
    give_up(topic)
    return redis.error_reply('FINISHED')
  end
  if kind == 'end' then return give_up(topic) end
  redis.call('HSET', feeds, topic, owner .. ' ' .. ARGV[4] .. '\\n' .. farewell_of(feed))
end
redis.call('ZADD', limits, now() + lease, topic)
"""
)

# With a topic: of the feed of that owner alone. It ends the topic also where Redis knows of no feed any more.
BURY: Final = (
    _FEEDS
    + """\
local prefix, channels, events, idle, ended, topic, owner, farewell = unpack(ARGV)
local function bury(name, last_words)
  append(prefix .. name, channels .. name, 'event', last_words, events, idle)
  append(prefix .. name, channels .. name, 'end', '', events, ended)
  give_up(name)
end
if topic then
  local feed = redis.call('HGET', feeds, topic)
  if feed and not number_of(feed, owner) then return {} end
  bury(topic, farewell)
  return {topic}
end
local dead = redis.call('ZRANGEBYSCORE', limits, '-inf', now(), 'LIMIT', 0, 100)
for _, name in ipairs(dead) do
  local feed = redis.call('HGET', feeds, name)
  if feed then bury(name, farewell_of(feed)) else redis.call('ZREM', limits, name) end
end
return dead
"""
)
