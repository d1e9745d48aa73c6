-- Runs one command on one key, unless a newer leader has been here: both in one step, so that nothing comes in between.
--
-- KEYS[1]  the mark: the highest token seen.
-- KEYS[2]  what is written to.
-- ARGV     token, command, its arguments after the key.
--
-- Tokens are compared as texts of digits: numbers of a script are not exact beyond 2^53.

local mark, token = redis.call('GET', KEYS[1]) or '0', ARGV[1]
if string.find(mark, '%D') or mark == '' then
  return redis.error_reply('CORRUPT the mark of the fence is no number')
end
if #token < #mark or (#token == #mark and token < mark) then
  return { 'refused', mark }
end
-- Raised before the command: also one that fails says who leads now.
if token ~= mark then redis.call('SET', KEYS[1], token) end
return { 'written', redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3)) }
