import { test } from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { occupy, serve, sleep, until } from './server.mjs';

const server = await serve();
const client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
const ask = { model: 'demo', max_tokens: 16, temperature: 0, ignore_eos: true, messages: [{ role: 'user', content: 'Speak, my lord.' }] };
const long = 'You are the king of Naples, and weary of it. '.repeat(12);

const total = usage => usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

test('a message has every field', async () => {
  const answer = await client.messages.create({ ...ask, system: 'You are the king of Naples.' });
  assert.match(answer.id, /^msg_/);
  assert.equal(answer.type, 'message');
  assert.equal(answer.role, 'assistant');
  assert.equal(answer.model, 'demo');
  assert.equal(answer.content.length, 1);
  assert.equal(answer.content[0].type, 'text');
  assert.ok(answer.content[0].text.length > 0);
  assert.equal(answer.stop_reason, 'max_tokens');
  assert.equal(answer.stop_sequence, null);
  assert.equal(answer.usage.output_tokens, 16);
  assert.match(answer._request_id, /^req-/);
});

test('every field of a request is taken', async () => {
  const plain = await client.messages.create(ask);
  const answer = await client.messages.create({
    ...ask, system: [{ type: 'text', text: 'Be brief.' }], stop_sequences: ['\n\n\n'], top_p: 0.9, top_k: 40, temperature: 0.7,
    metadata: { user_id: 'me' }, tool_choice: { type: 'auto' }, cache_control: { type: 'ephemeral' },
    tools: [{ name: 'add', description: 'adds', input_schema: { type: 'object', properties: { a: { type: 'number' } } } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'What is 1 + 2?', cache_control: { type: 'ephemeral', ttl: '1h' } }] },
      { role: 'assistant', content: [{ type: 'text', text: 'Let me see.' }, { type: 'tool_use', id: 't1', name: 'add', input: { a: 1 } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: '3' }] },
    ],
  });
  assert.equal(answer.usage.output_tokens, 16);
  assert.ok(total(answer.usage) > total(plain.usage));
});

async function askTwiceWithMarks(client) {
  const marked = {
    ...ask, cache_salt: 'marks', system: [{ type: 'text', text: long, cache_control: { type: 'ephemeral', ttl: '5m' } }],
  };
  const first = await client.messages.create(marked);
  assert.equal(first.usage.cache_read_input_tokens, 0);
  assert.ok(first.usage.cache_creation_input_tokens > 100);
  assert.ok(first.usage.input_tokens > 0);
  const second = await client.messages.create({ ...marked, messages: [{ role: 'user', content: 'And then?' }] });
  assert.ok(second.usage.input_tokens < 20);
  const again = second.usage.cache_creation_input_tokens;
  assert.ok(second.usage.cache_read_input_tokens + again >= first.usage.cache_creation_input_tokens);
  return again;
}

test('marked blocks are created first and read then', async () => {
  const exact = await serve('--kv-type', 'bf16');
  assert.equal(await askTwiceWithMarks(new Anthropic({ baseURL: exact.url, apiKey: 'none', maxRetries: 0 })), 0);
});

test('of marked blocks, int8 pages compute less than a page of 32 tokens again', async () => {
  assert.ok(await askTwiceWithMarks(client) < 32);
});

test('a stream has the events in their order', async () => {
  const whole = await client.messages.create(ask);
  const types = [];
  let text = '';
  let start, end;
  for await (const event of await client.messages.create({ ...ask, stream: true })) {
    if (types.at(-1) !== event.type) types.push(event.type);
    if (event.type === 'message_start') start = event.message;
    if (event.type === 'content_block_delta') text += event.delta.text;
    if (event.type === 'message_delta') end = event;
  }
  assert.deepEqual(types, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
  assert.equal(text, whole.content[0].text);
  assert.equal(total(start.usage), total(whole.usage));
  assert.ok(start.usage.cache_read_input_tokens > 0);
  assert.equal(end.delta.stop_reason, 'max_tokens');
  assert.equal(end.usage.output_tokens, 16);
});

test('the helper for streams puts the message together', async () => {
  const stream = client.messages.stream(ask);
  const texts = [];
  stream.on('text', delta => texts.push(delta));
  const answer = await stream.finalMessage();
  assert.equal(answer.content[0].text, texts.join(''));
  assert.equal(answer.stop_reason, 'max_tokens');
  assert.equal(answer.usage.output_tokens, 16);
  assert.equal(await stream.finalText(), texts.join(''));
});

test('a stop sequence is told', async () => {
  const whole = (await client.messages.create(ask)).content[0].text;
  const stop = whole.slice(5, 8);
  const answer = await client.messages.create({ ...ask, stop_sequences: [stop] });
  assert.equal(answer.stop_reason, 'stop_sequence');
  assert.equal(answer.stop_sequence, stop);
  assert.equal(answer.content[0].text, whole.slice(0, whole.indexOf(stop)));
});

test('an answer goes on from the words that it was given', async () => {
  const answer = await client.messages.create({ ...ask, messages: [...ask.messages, { role: 'assistant', content: 'I am the' }] });
  const plain = await client.messages.create(ask);
  assert.ok(total(answer.usage) > total(plain.usage));
  assert.notEqual(answer.content[0].text, plain.content[0].text);
});

test('tokens are counted as they will be', async () => {
  const counted = await client.messages.countTokens({ model: 'demo', system: long, messages: ask.messages });
  const answer = await client.messages.create({ ...ask, system: long });
  assert.equal(counted.input_tokens, total(answer.usage));
});

test('errors have their classes and types', async () => {
  const rejects = (promise, kind, type) => assert.rejects(promise, e => {
    assert.ok(e instanceof kind, e.constructor.name);
    assert.equal(e.error.type, 'error');
    assert.equal(e.error.error.type, type);
    assert.match(e.requestID, /^req-/);
    assert.equal(e.error.request_id, e.requestID);
    return true;
  });
  await rejects(client.messages.create({ ...ask, messages: [] }), Anthropic.BadRequestError, 'invalid_request_error');
  await rejects(client.messages.create({ ...ask, max_tokens: -1 }), Anthropic.BadRequestError, 'invalid_request_error');
  await rejects(client.messages.create({ ...ask, model: 'claude' }), Anthropic.NotFoundError, 'not_found_error');
  await rejects(client.messages.create({ ...ask, tool_choice: { type: 'any' } }), Anthropic.BadRequestError, 'invalid_request_error');
  await rejects(client.messages.create({ ...ask, messages: [{ role: 'user', content: 'word '.repeat(100_000) }] }), Anthropic.BadRequestError, 'invalid_request_error');
});

test('a key may come in either header', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'kvik-')), 'keys');
  writeFileSync(file, 'right ann\n');
  const locked = await serve('--api-key-file', file);
  const open = keys => new Anthropic({ baseURL: locked.url, apiKey: null, authToken: null, maxRetries: 0, ...keys });
  await assert.rejects(open({ apiKey: 'wrong' }).messages.create(ask), Anthropic.AuthenticationError);
  assert.equal((await open({ apiKey: 'right' }).messages.create(ask)).usage.output_tokens, 16);
  assert.equal((await open({ authToken: 'right' }).messages.create(ask)).usage.output_tokens, 16);
});

test('a stream that is given up frees its pages', async () => {
  const stream = client.messages.stream({ ...ask, max_tokens: 100_000, ignore_eos: true });
  let n = 0;
  stream.on('text', () => { if (++n === 5) stream.abort(); });
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  await until(() => server.isAtRest(), 'rest');
});

test('a full server is overloaded, and the client comes back', async () => {
  const small = await serve('--max-running', 1, '--max-queue', 1);
  const open = maxRetries => new Anthropic({ baseURL: small.url, apiKey: 'none', maxRetries });
  const letGo = await occupy(small.url);
  const waiting = open(0).messages.create(ask);
  await until(async () => await small.metric('kvik_requests_waiting{') === 1, 'a waiting request');
  await assert.rejects(open(0).messages.create(ask), e => {
    assert.ok(e instanceof Anthropic.RateLimitError, e.constructor.name);
    assert.ok(Number(e.headers.get('retry-after')) >= 1);
    return true;
  });
  const patient = open(5).messages.create(ask);
  await sleep(100);
  letGo();
  assert.equal((await waiting).usage.output_tokens, 16);
  assert.equal((await patient).usage.output_tokens, 16);
});

test('a server that stops refuses new messages with 503', async () => {
  const leaving = await serve();
  const own = new Anthropic({ baseURL: leaving.url, apiKey: 'none', maxRetries: 0 });
  let refused, last;
  for await (const event of await own.messages.create({ ...ask, max_tokens: 400, ignore_eos: true, stream: true })) {
    last = event.type;
    if (event.type !== 'message_start') continue;
    leaving.terminate();
    await until(async () => (await fetch(`${leaving.url}/readyz`)).status === 503, 'draining');
    refused = await own.messages.create(ask).catch(e => e);
  }
  assert.equal(refused.status, 503);
  assert.equal(refused.error.error.type, 'overloaded_error');
  assert.equal(last, 'message_stop');
  assert.equal(await leaving.ended, 0);
});
