-- Every verb of an election, decided and written in one step.
--
-- KEYS[1]  the lease: a plain string that ends with the ttl. Its value names the bid that holds. It alone says who leads.
-- KEYS[2]  the record: a hash of all else, which never ends. What it says about a holder is believed only if it names the
--          value of the lease.
-- ARGV     verb, mark of this call, election, channel, then what the verb needs.
--
-- An answer begins with the mark, so that no caller takes another one's answer for its own. The frequent ones are lines of
-- one text, which costs both sides less than a list.
--
-- The rules are those of `tenure_core::store::record`; a test runs both side by side. Times are µs of this server's clock.
-- Numbers of more than 14 digits are only ever written with `text`: `tostring` and `..` would round them.
-- Where another server may take this one's place, the caller gives the last arguments of a verb, too: `spare_ms`, for which a
-- lease lasts longer here than its holder counts with, since the other one's clock may be ahead; and `again`, which lets a
-- repeated call write what stands there already: only a write can be waited for until replicas have it. Where a majority of
-- several servers decides, other arguments follow those, which are empty then.
-- Patterns are anchored or plain: the server does nothing else meanwhile.
-- An error names the line of its command, from which the caller tells which one it was: one command in a line.

local lease, kept = KEYS[1], KEYS[2]
local verb, mark, election, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

-- Renewing comes first, because nearly every call is a renewal: it reads only what it needs, and what it seldom needs stands
-- below. A function that nobody calls costs time, too.
--
-- The caller holds the lease if it has its value, its token (which no other value ever had), and was last written by itself.
-- A foreign mark under its own value is a cloned process: at most one of the two may go on. Of several servers one may have
-- missed renewals: it is behind `renewals`, which a majority has.
local present, ttl_ms, count, total, asked, repeated, fields, wait_ms
if verb == 'renew' then
  local _, _, _, _, value, token, marks, at_ms, _, _, spare_ms, again, renewals, renewals_total = unpack(ARGV)
  present = call('GET', lease)
  local found = present == value and call('HMGET', kept, 'token', 'attempt', 'ttl_ms', 'renew_count', 'renew_total', 'request_id')
  local attempt = found and found[1] == token and found[2]
  local behind = attempt and renewals and tonumber(found[4] or 0) < tonumber(renewals)
  if behind or attempt and string.find(marks, attempt, 1, true) then
    ttl_ms, count, total = found[3], found[4] or '0', found[5] or '0'
    if behind then count, total = renewals, renewals_total end
    if attempt ~= mark then
      -- The lease first: a server without memory to spare lets a script go on that began with this.
      local lasts_ms = spare_ms and spare_ms ~= '' and string.format('%.0f', ttl_ms + spare_ms) or ttl_ms
      call('PEXPIRE', lease, lasts_ms)
      -- Counts have far less than 14 digits.
      count, total = (count + 1) .. '', (total + 1) .. ''
      call('HSET', kept, 'attempt', mark, 'renewed_at_ms', at_ms, 'renew_count', count, 'renew_total', total)
      -- The bid, without the candidate's name. Whoever may not publish still leads.
      redis.pcall('PUBLISH', channel, 'renewed ' .. string.sub(value, -32) .. ' ' .. mark .. ' ' .. token .. ' ' .. lasts_ms .. ' ' .. count .. ' ' .. total .. ' ' .. at_ms)
    elseif again and again ~= '' then
      call('HSET', kept, 'attempt', mark)
    end
    asked, repeated = found[6], attempt == mark
    local missed = renewals and ARGV[9] ~= ''
    if not asked and not missed then return mark .. '\nrenewed\n' .. ttl_ms .. '\n' .. count .. '\n' .. total end
  end
end

local FORMAT, TOKEN_LIMIT = '1', 2 ^ 53
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local micros = string.format('%06d', clock[2])
-- As `text` would write it, which takes longer.
local now_text, now_ms = clock[1] .. micros, clock[1] .. string.sub(micros, 1, 3)

local function is_number(field)
  return field and string.find(field, '^%d+$') and tonumber(field) < TOKEN_LIMIT
end

local function is_number_or_nothing(field)
  return not field or is_number(field)
end

-- Returns what is kept of this election as a table (empty if nothing) and as it came; or why it cannot be understood.
local function look()
  local fields = call('HGETALL', kept)
  local record = {}
  for i = 1, #fields, 2 do record[fields[i]] = fields[i + 1] end
  local why
  if #fields == 0 then
    record.token = '0'
  elseif not is_number(record.format) then
    why = 'the record names no format'
  elseif tonumber(record.format) > tonumber(FORMAT) then
    why = 'the record has format ' .. record.format
  elseif record.election ~= election then
    why = 'it is the record of another election'
  elseif not is_number(record.token) then
    why = 'the record names no token'
  elseif record.bid and not (record.value and record.attempt and record.who and is_number(record.acquired_at_ms) and is_number(record.ttl_ms)) then
    why = 'the record names half a holder'
  elseif not (is_number_or_nothing(record.pause_until) and is_number_or_nothing(record.reserved_until) and is_number_or_nothing(record.request_until)) then
    why = 'the record names a moment that is none'
  end
  return record, fields, why and redis.error_reply('CORRUPT ' .. why)
end

-- Returns the last terms with the present one as the newest.
local function terms_with(record, how, cool_down_ms, ended_at_ms)
  local newest = '{"token":' .. record.token .. ',"who":' .. record.who
    .. ',"acquired_at_ms":' .. record.acquired_at_ms .. ',"ended_at_ms":' .. (ended_at_ms or now_ms)
    .. ',"end":"' .. how .. '"' .. (cool_down_ms ~= '' and ',"cool_down_ms":' .. cool_down_ms or '') .. '}'
  local terms, ends = record.terms or '', {}
  if terms == '' then return newest end
  local at = string.find(terms, '\n', 1, true)
  while at do
    ends[#ends + 1] = at
    at = string.find(terms, '\n', at + 1, true)
  end
  -- Eight are kept: so many of the oldest have no place any more.
  local stale = #ends + 2 - 8
  return (stale > 0 and string.sub(terms, ends[stale] + 1) or terms) .. '\n' .. newest
end

-- How long nobody may have the lease because this server began, or took another one's place, so lately that it may not know
-- of one that still lives. The caller knows of `up_ms` at least; and of `serves_ms`, if there was another server before.
-- The uptime is the difference of two whole seconds: the true one may be a second less. A clock that was set back makes it
-- negative.
local function wait_after_start(longest_ttl_ms, up_ms, serves_ms)
  local wait_ms = serves_ms and longest_ttl_ms - serves_ms or 0
  if longest_ttl_ms > up_ms then
    local uptime = tonumber(string.match(call('INFO', 'server'), 'uptime_in_seconds:(-?%d+)')) or 0
    wait_ms = math.max(wait_ms, longest_ttl_ms - (math.max(0, uptime) - 1) * 1000)
  end
  return math.max(0, wait_ms)
end

-- Puts the record back as it was before a command was refused: what is denied has changed nothing. It was this one, unless
-- those that are needed for that are refused as well: then it was the first of them.
local function undone(fields, refusal, command)
  local written = #fields > 0 and redis.pcall('HSET', kept, unpack(fields))
  if type(written) == 'table' then
    -- Whoever may not write has changed nothing in it.
    command = 'HSET'
  else
    if type(redis.pcall('DEL', kept)) == 'table' then command = 'DEL' end
    if #fields > 0 then redis.pcall('HSET', kept, unpack(fields)) end
  end
  return redis.error_reply(refusal.err .. " ('" .. command .. "')")
end

if verb == 'acquire' then
  local bid, value, candidate, who, about, ttl_ms, floor, supersedes, longest_ttl_ms, up_ms, serves_ms, run, spare_ms, again = unpack(ARGV, 5)
  present = call('GET', lease)
  local record, corrupt
  record, fields, corrupt = look()
  if corrupt then return corrupt end
  local held = present and record.bid and record.value == present
  -- Once: it is left where the bid is refused, which is answered below.
  repeat
    if present and not held then
      -- Somebody holds it who is none of ours: whoever leads next cannot know who led before.
      -- It is refused also where that cannot be noted, since there is no memory left.
      if not record.foreign then
        redis.pcall('HSET', kept, 'format', FORMAT, 'election', election, 'token', record.token, 'foreign', '1')
      end
      break
    end
    local terms = record.terms or ''
    local token, attempt, lasts_ms, count, total, gap
    if record.bid == bid then
      -- The same bid again: the same term while it lives, nothing afterwards.
      if not held then break end
      if again then call('HSET', kept, 'attempt', record.attempt) end
      token, attempt, lasts_ms, count, gap = record.token, record.attempt, record.ttl_ms, record.renew_count or '0', record.gap
      total = record.renew_total or '0'
    else
      local superseded = record.bid and record.bid == supersedes
      if held and not superseded then break end
      local spent = terms ~= '' and string.find(terms, '"bid":"' .. bid .. '"', 1, true)
      local reserved = record.reserved_until and tonumber(record.reserved_until) > now and record.reserved_for ~= candidate
      local paused = record.pause_until and tonumber(record.pause_until) > now
      if spent or reserved or paused then break end
      -- The ttl of the last holder counts also if its lease is gone. And if it is there: it may be one from before the last one.
      if longest_ttl_ms ~= '0' or record.ttl_ms then
        wait_ms = wait_after_start(math.max(tonumber(longest_ttl_ms), tonumber(record.ttl_ms or 0)), tonumber(up_ms), tonumber(serves_ms))
        if wait_ms > 0 then break end
      end
      local known, seen = tonumber(record.token), tonumber(floor)
      token = math.max(known, seen, now) + 1
      if token >= TOKEN_LIMIT then return redis.error_reply('ERR the tokens of this election have reached their end') end
      token, attempt, lasts_ms, count, total = string.format('%.0f', token), mark, ttl_ms, '0', record.renew_total or '0'
      if record.bid then terms = terms_with(record, superseded and 'superseded' or 'expired', '') end
      -- A candidate that has seen a higher token than the record's knows that the store lost terms. A server that began anew
      -- since the last grant may have lost some.
      gap = seen > known or record.foreign or (run ~= '' and #fields > 0 and record.run ~= run)
      -- The record first: it is not believed without the lease, so that a refusal in between grants nothing. And setting
      -- before removing: a server without memory to spare refuses only what a script begins with.
      call('HSET', kept, 'format', FORMAT, 'election', election, 'token', token, 'value', value, 'bid', bid, 'attempt', mark,
        'ttl_ms', ttl_ms, 'who', who, 'about', about, 'acquired_at_ms', now_ms, 'run', run)
      if record.bid then call('HSET', kept, 'terms', terms) end
      if #fields > 0 then
        local removed = redis.pcall('HDEL', kept, 'gap', 'foreign', 'renewed_at_ms', 'renew_count', 'release', 'reserved_for', 'reserved_until',
          'request', 'request_id', 'request_token', 'request_until')
        if type(removed) == 'table' then return undone(fields, removed, 'HDEL') end
      end
      if gap then call('HSET', kept, 'gap', '1') end
      local set = redis.pcall('SET', lease, value, 'PX', spare_ms and string.format('%.0f', ttl_ms + spare_ms) or ttl_ms)
      if set.err then return undone(fields, set, 'SET') end
      redis.pcall('PUBLISH', channel, 'acquired ' .. now_text .. '\n' .. value .. '\n' .. bid .. '\n' .. mark .. '\n' .. token .. '\n' .. ttl_ms .. '\n'
        .. total .. (gap and '\n1\n' or '\n0\n') .. who .. '\n' .. about .. '\n' .. terms)
    end
    -- In lines, of which the last one is the term before, if it is known.
    local previous = not gap and terms ~= '' and '\n' .. (string.match(terms, '^.*\n(.*)$') or terms) or ''
    return mark .. '\nacquired\n' .. token .. '\n' .. attempt .. '\n' .. lasts_ms .. '\n' .. count .. '\n' .. total .. previous
  until true
end

-- Anybody's view: this server's time, the lease's value and time left, how long nobody may have a free lease, the record.
local function view(value, fields, wait_ms)
  local left = value and call('PTTL', lease) or -2
  return { now_text, value, left, wait_ms or 0, fields }
end

local function refused(value, record, wait)
  return { mark, 'refused', view(value, record, wait) }
end

if verb == 'acquire' then
  return refused(present, fields, wait_ms)
end

local function text(number)
  return string.format('%.0f', number)
end

-- Tells everybody who waits. Whoever may not publish still leads: a missed wake-up costs time, not safety.
local function publish(what)
  redis.pcall('PUBLISH', channel, what)
end

local function is_held(value, record)
  return value and record.bid and record.value == value
end

local function is_ahead(moment)
  return moment and tonumber(moment) > now
end

-- Tells whether the caller gave an argument that may be left out.
local function is_given(argument)
  return argument and argument ~= ''
end

-- Returns the moment that is so far ahead, or the last one that can be told.
local function moment_in(ms)
  return text(math.min(now + tonumber(ms) * 1000, TOKEN_LIMIT - 1))
end

local REQUEST = { 'request', 'request_id', 'request_token', 'request_until' }

local function live_request(record)
  return record.request and record.bid and record.request_token == record.token and (tonumber(record.request_until) or 0) > now
end

-- Notes what became of the request that stands here, once: a late answer to an earlier one says nothing.
local function answer(record, answer_id, answered)
  if answer_id ~= '' and live_request(record) and record.request_id == answer_id then
    record.answer_id, record.answer, record.request = answer_id, answered, nil
    call('HSET', kept, 'answer_id', answer_id, 'answer', answered)
    -- Whoever may not remove it has renewed all the same: the attempt is in the record.
    redis.pcall('HDEL', kept, unpack(REQUEST))
  end
end

-- What of renewing is seldom: the lease is lost, or somebody asked its holder for something.
if verb == 'renew' then
  if not ttl_ms then
    local fields = call('HGETALL', kept)
    return { mark, 'lost', (present or #fields > 0) and view(present, fields) }
  end
  local found = call('HMGET', kept, 'request', 'request_token', 'request_until')
  local record = { bid = present, token = ARGV[6], request_id = asked, request = found[1], request_token = found[2], request_until = found[3] }
  if not repeated then answer(record, ARGV[9], ARGV[10]) end
  -- Of several servers this one may have missed the request; whoever asks it must find the answer all the same.
  if ARGV[13] and ARGV[9] ~= '' and not repeated and call('HMGET', kept, 'answer_id')[1] ~= ARGV[9] then
    call('HSET', kept, 'answer_id', ARGV[9], 'answer', ARGV[10])
  end
  local request = live_request(record) and { record.request, text(record.request_until - now) } or nil
  return { mark, 'renewed', ttl_ms, count, total, request }
end

-- Writes fields of the record.
local function set(record, fields)
  local arguments = {}
  for name, value in pairs(fields) do
    record[name] = value
    arguments[#arguments + 1] = name
    arguments[#arguments + 1] = value
  end
  call('HSET', kept, unpack(arguments))
end

-- Removes fields of the record, if there are any.
local function remove(record, names)
  local present = {}
  for _, name in ipairs(names) do
    if record[name] then
      record[name] = nil
      present[#present + 1] = name
    end
  end
  if #present > 0 then call('HDEL', kept, unpack(present)) end
end

local function publish_view(value, left_ms, record)
  publish('view ' .. cjson.encode({ now_text, value, tonumber(left_ms), 0, record }))
end

-- Tells how many listen; none if this user may not ask.
local function listeners()
  local told = redis.pcall('PUBSUB', 'NUMSUB', channel)
  return told.err and 0 or told[2]
end

-- In lines, which costs everybody less. How many are told is how many are about to bid.
local function publish_release(record)
  if record.pause_until then return publish_view(false, -2, record) end
  publish('released ' .. now_text .. '\n' .. listeners() .. '\n' .. record.token .. '\n' .. (record.renew_total or '0') .. '\n'
    .. record.reserved_for .. '\n' .. record.reserved_until .. '\n' .. (record.succeeded_at or '') .. '\n'
    .. (record.answer or '') .. '\n' .. record.terms)
end

-- As in a renewal.
local function is_last(attempt, count, marks, renewals)
  local behind = renewals and tonumber(count or 0) < tonumber(renewals)
  return behind or string.find(marks, attempt or '?', 1, true)
end

local function is_withdrawn(record, bid, token)
  return record.withdrawn == bid and tonumber(token) <= tonumber(record.withdrawn_token)
end

-- Notes that no vote for a bid is wanted any more, up to a token.
local function note_withdrawn(record, bid, token)
  if is_withdrawn(record, bid, token) then return end
  set(record, { format = FORMAT, election = election, token = record.token, withdrawn = bid, withdrawn_token = token })
end

-- Ends the term of the record, and says how.
local function end_term(record, how, successor, window_ms, cool_down_ms, answer_id, answered, at_ms)
  call('DEL', lease)
  answer(record, answer_id, answered)
  -- The request may have run out since the holder took it up; what became of it is told all the same.
  if answer_id ~= '' and not live_request(record) then
    set(record, { answer_id = answer_id, answer = answered })
  end
  if live_request(record) then
    -- Whoever asked hears that it came too late, instead of nothing.
    local late = '{"id":"' .. record.request_id .. '","answer":{"refused":"the term ended before it was done"}}'
    set(record, { answer_id = record.request_id, answer = late })
  end
  record.terms, record.reserved_until = terms_with(record, how, cool_down_ms, at_ms), moment_in(window_ms)
  record.release, record.reserved_for = mark, successor
  call('HSET', kept, 'terms', record.terms, 'release', mark, 'reserved_for', successor, 'reserved_until', record.reserved_until)
  if how == 'succeeded' then set(record, { succeeded_at = now_text }) end
  local gone = {
    'value', 'bid', 'attempt', 'ttl_ms', 'who', 'about', 'acquired_at_ms', 'renewed_at_ms', 'renew_count', 'gap',
    'before', unpack(REQUEST),
  }
  call('HDEL', kept, unpack(gone))
  for _, name in ipairs(gone) do record[name] = nil end
end

local function release(value, token, marks, how, successor, window_ms, cool_down_ms, answer_id, answered, again, renewals, at_ms)
  local present = call('GET', lease)
  local record, fields, corrupt = look()
  if corrupt then return corrupt end
  if record.release == mark then
    if is_given(again) then call('HSET', kept, 'release', mark) end
    return { mark, 'released' }
  end
  local own = is_held(present, record) and present == value and record.token == token
  if not own or not is_last(record.attempt, record.renew_count, marks, renewals) then
    -- Of several servers one may be about to give its vote: it is too late for that.
    local missed = renewals and not present and tonumber(record.token) < tonumber(token)
    if missed then note_withdrawn(record, string.sub(value, -32), token) end
    return { mark, 'not_held' }
  end
  local left_ms = call('PTTL', lease)
  local ended, refusal = pcall(end_term, record, how, successor, window_ms, cool_down_ms, answer_id, answered, at_ms)
  if not ended then
    -- Nothing has changed: there is the lease again, and the record as it was.
    redis.pcall('SET', lease, value, 'PX', math.max(1, left_ms))
    -- Some versions give the text alone.
    return undone(fields, type(refusal) == 'table' and refusal or { err = refusal }, 'HDEL')
  end
  publish_release(record)
  return { mark, 'released' }
end

local function read()
  local present = call('GET', lease)
  local _, fields, corrupt = look()
  if corrupt then return corrupt end
  if not present and #fields == 0 then return { mark, 'nothing', now_text } end
  return { mark, 'found', view(present, fields) }
end

local function request(id, token, asked, expires_in_ms)
  local present = call('GET', lease)
  local record, _, corrupt = look()
  if corrupt then return corrupt end
  if not is_held(present, record) then return { mark, 'no_holder' } end
  if record.token ~= token then return { mark, 'wrong_term', record.token } end
  local waiting = live_request(record)
  if waiting and record.request_id ~= id then return { mark, 'busy', record.request_id } end
  if not waiting and record.answer_id ~= id then
    set(record, {
      request = asked, request_id = id, request_token = token,
      request_until = moment_in(expires_in_ms),
    })
    publish_view(present, call('PTTL', lease), record)
  end
  return { mark, 'accepted', record.token }
end

local function pause(by, ends_in_ms)
  local record, _, corrupt = look()
  if corrupt then return corrupt end
  set(record, {
    format = FORMAT, election = election, token = record.token, pause_by = by,
    pause_until = moment_in(ends_in_ms),
  })
  publish_view(call('GET', lease), call('PTTL', lease), record)
  return { mark, 'done' }
end

local function resume()
  local record, _, corrupt = look()
  if corrupt then return corrupt end
  if is_ahead(record.pause_until) then
    remove(record, { 'pause_by', 'pause_until' })
    publish_view(call('GET', lease), call('PTTL', lease), record)
  end
  return { mark, 'done' }
end

-- What follows is for one of several servers that know nothing of each other, of which a majority decides (Redlock).

-- Makes the record what `fields` say, and nothing else; returns the refusal, if there is one. Setting before removing, as in
-- `acquire`.
local function replace(record, fields)
  fields.format, fields.election = FORMAT, election
  local stale = {}
  for name in pairs(record) do
    if not fields[name] then stale[#stale + 1] = name end
  end
  set(record, fields)
  if #stale == 0 then return end
  local removed = redis.pcall('HDEL', kept, unpack(stale))
  if type(removed) == 'table' then return removed end
  for _, name in ipairs(stale) do record[name] = nil end
end

-- Writes a record and its lease, or neither of them.
local function put(was, record, fields, value, ttl_ms)
  local refusal = replace(record, fields)
  if refusal then return undone(was, refusal, 'HDEL') end
  local written = redis.pcall('SET', lease, value, 'PX', ttl_ms)
  if written.err then return undone(was, written, 'SET') end
end

-- Keeps a moment within what can be told.
local function told(moment)
  return text(math.max(0, math.min(moment, TOKEN_LIMIT - 1)))
end

-- Gives this server's vote: the lease, under a token that the bidder has chosen above all that a majority knew. Only a token
-- above this server's own will do, so that any two majorities share a server that knows the higher one. The bidder also
-- brings what the majority knew of the terms before, since this server may have missed some.
--
-- What was here before is kept aside until the term has ended: a vote that is not enough is taken back.
local function vote(bid, value, candidate, token, last, supersedes, success_age, brought, longest_ttl_ms, up_ms, serves_ms, run)
  local present = call('GET', lease)
  local record, fields, corrupt = look()
  if corrupt then return corrupt end
  local held = is_held(present, record)
  local mine = record.bid == bid
  if present and not held then
    -- As in `acquire`.
    if not record.foreign then
      redis.pcall('HSET', kept, 'format', FORMAT, 'election', election, 'token', record.token, 'foreign', '1')
    end
    return refused(present, fields)
  end
  if held and mine and record.token == token then return { mark, 'voted' } end
  if held and not mine and record.bid ~= supersedes then return refused(present, fields) end
  local spent = (mine and not held) or string.find(record.terms or '', '"bid":"' .. bid .. '"', 1, true)
  local reserved = is_ahead(record.reserved_until) and record.reserved_for ~= candidate
  if spent or reserved or is_ahead(record.pause_until) then return refused(present, fields) end
  -- A vote that was taken back before it arrived is not given any more.
  if tonumber(token) <= tonumber(record.token) or is_withdrawn(record, bid, token) then return refused(present, fields) end
  -- Nor is one whose bidder has not heard of a term that this server knows of: it would tell whoever asks that another one
  -- was the last before it.
  if not mine and tonumber(record.token) > tonumber(last) then return refused(present, fields) end
  -- As in `acquire`.
  local wait_ms = wait_after_start(math.max(tonumber(longest_ttl_ms), tonumber(record.ttl_ms or 0)), tonumber(up_ms), tonumber(serves_ms))
  if wait_ms > 0 then return refused(present, fields, wait_ms) end
  local given = cjson.decode(brought)
  given.token, given.value, given.bid, given.run = token, value, bid, run
  given.withdrawn, given.withdrawn_token = record.withdrawn, record.withdrawn_token
  given.succeeded_at = success_age ~= '' and told(now - tonumber(success_age)) or nil
  -- A second vote for one bid replaces the first one: what was before is what was before that.
  given.before = record.before
  if not mine then
    record.before = nil
    given.before = #fields > 0 and cjson.encode(record) or nil
  end
  local refusal = put(fields, record, given, value, given.ttl_ms)
  if refusal then return refusal end
  record.before = nil
  publish_view(value, given.ttl_ms, record)
  return { mark, 'voted' }
end

-- Takes a vote back that was not enough, also one that has not arrived yet. The term never was: the server forgets it, its
-- token too.
local function withdraw(bid, value, token)
  local record, fields, corrupt = look()
  if corrupt then return corrupt end
  if record.bid == bid and tonumber(record.token) <= tonumber(token) then
    if call('GET', lease) == value then call('DEL', lease) end
    local before = record.before and cjson.decode(record.before) or {}
    before.token = before.token or '0'
    -- A pause is none of the vote's: it stays if it came since.
    before.pause_by, before.pause_until = record.pause_by, record.pause_until
    local refusal = replace(record, before)
    if refusal then return undone(fields, refusal, 'HDEL') end
  end
  note_withdrawn(record, bid, token)
  publish_view(call('GET', lease), call('PTTL', lease), record)
  return { mark, 'done' }
end

-- Takes back the lease of a term that has a majority without this server, as another server shows it: this one was away, or
-- has lost its data. It votes for nothing new by that; what it has forgotten beside this term it still does not know (`run`),
-- and whether it is paused is its own affair.
local function take_back(value, token, left_ms, as_of, shown)
  local present = call('GET', lease)
  local record, was, corrupt = look()
  if corrupt then return corrupt end
  local known, fields = tonumber(record.token), cjson.decode(shown)
  local over = known == tonumber(token) and not record.bid
  local newer = present == value and tonumber(record.renew_count or 0) >= tonumber(fields.renew_count or 0)
  if (present and present ~= value) or known > tonumber(token) or over or newer or is_withdrawn(record, fields.bid, token) then
    return { mark, 'refused' }
  end
  -- From the other server's clock to this one's.
  for _, moment in ipairs({ 'succeeded_at', 'reserved_until', 'request_until' }) do
    if fields[moment] then fields[moment] = told(fields[moment] - as_of + now) end
  end
  for _, own in ipairs({ 'withdrawn', 'withdrawn_token', 'run', 'pause_by', 'pause_until' }) do fields[own] = record[own] end
  fields.before = nil
  local refusal = put(was, record, fields, value, left_ms)
  if refusal then return refusal end
  publish_view(value, left_ms, record)
  return { mark, 'done' }
end

local verbs = {
  release = release, read = read, request = request, pause = pause, resume = resume,
  vote = vote, withdraw = withdraw, take_back = take_back,
}
return verbs[verb](unpack(ARGV, 5))
