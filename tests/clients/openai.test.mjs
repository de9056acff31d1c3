import { test } from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { occupy, serve, sleep, until } from './server.mjs';

const server = await serve();
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'system', content: 'You are the king of Naples, and weary of it.' }, { role: 'user', content: 'Speak, my lord.' }];
const chat = { model: 'demo', messages, temperature: 0, max_completion_tokens: 16, ignore_eos: true };

const collect = async stream => {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
};
const textOf = chunks => chunks.map(c => c.choices[0]?.delta.content ?? '').join('');

test('models are listed and found by their id', async () => {
  const list = await client.models.list();
  assert.deepEqual(list.data.map(m => m.id), ['demo']);
  const model = await client.models.retrieve('demo');
  assert.equal(model.object, 'model');
  assert.equal(typeof model.created, 'number');
  await assert.rejects(client.models.retrieve('gpt-5'), OpenAI.NotFoundError);
});

test('a chat completion has every field', async () => {
  const answer = await client.chat.completions.create(chat);
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.object, 'chat.completion');
  assert.ok(Math.abs(answer.created - Date.now() / 1000) < 60);
  assert.equal(answer.model, 'demo');
  assert.match(answer._request_id, /^req-/);
  assert.equal(answer.choices.length, 1);
  const [choice] = answer.choices;
  assert.equal(choice.index, 0);
  assert.equal(choice.message.role, 'assistant');
  assert.ok(choice.message.content.length > 0);
  assert.equal(choice.message.refusal, null);
  assert.equal(choice.logprobs, null);
  assert.equal(choice.finish_reason, 'length');
  assert.equal(answer.usage.completion_tokens, 16);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 16);
  assert.equal(typeof answer.usage.prompt_tokens_details.cached_tokens, 'number');
  assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 0);
});

test('the second time the prompt is cached', async () => {
  const ask = () => client.chat.completions.create({ ...chat, cache_salt: 'twice' });
  const first = await ask();
  const second = await ask();
  assert.equal(first.usage.prompt_tokens_details.cached_tokens, 0);
  assert.equal(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens - 1);
  assert.equal(second.choices[0].message.content, first.choices[0].message.content);
});

test('why not more was cached is told on request', async () => {
  const answer = await client.chat.completions.create({ ...chat, cache_salt: 'why', kvik: { explain_cache: true } });
  assert.equal(answer.kvik.cache[0].miss.reason, 'never_seen');
});

test('every field of a request is taken', async () => {
  const answer = await client.chat.completions.create({
    ...chat, n: 2, stop: ['\n\n\n'], seed: 7, top_p: 0.9, presence_penalty: 0.1, frequency_penalty: 0.1, logit_bias: { 5: -1 },
    logprobs: true, top_logprobs: 3, response_format: { type: 'text' }, tool_choice: 'auto', parallel_tool_calls: true,
    user: 'me', metadata: { a: 'b' }, store: false, prompt_cache_key: 'k',
    tools: [{ type: 'function', function: { name: 'add', description: 'adds', parameters: { type: 'object', properties: {} } } }],
    // Fields of other local servers.
    top_k: 40, min_p: 0.01, repetition_penalty: 1.1, min_tokens: 2, stop_token_ids: [3], ignore_eos: true, cache_salt: 's', priority: 1,
    chat_template_kwargs: { a: 1 }, continue_final_message: false, return_token_ids: true, temperature: 0.7, unknown_field: 1,
  });
  assert.equal(answer.choices.length, 2);
  for (const choice of answer.choices) {
    assert.equal(choice.token_ids.length, 16);
    assert.equal(choice.logprobs.content.length, 16);
    for (const token of choice.logprobs.content) {
      assert.equal(token.top_logprobs.length, 3);
      assert.ok(token.logprob <= 0);
      assert.deepEqual(token.bytes, [...Buffer.from(token.bytes)]);
    }
  }
});

test('a seed gives the same answer again', async () => {
  const ask = seed => client.chat.completions.create({ ...chat, temperature: 1, seed }).then(a => a.choices[0].message.content);
  assert.equal(await ask(5), await ask(5));
  assert.notEqual(await ask(5), await ask(6));
});

test('a stop string ends the answer before it', async () => {
  const whole = (await client.chat.completions.create(chat)).choices[0].message.content;
  const stop = whole.slice(5, 8);
  const cut = await client.chat.completions.create({ ...chat, stop });
  assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, 'stop');
});

test('a stream says what the whole answer says', async () => {
  const whole = await client.chat.completions.create(chat);
  const chunks = await collect(await client.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } }));
  assert.equal(textOf(chunks), whole.choices[0].message.content);
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.ok(chunks.every(c => Array.isArray(c.choices) && c.object === 'chat.completion.chunk' && c.id === chunks[0].id));
  assert.equal(chunks.at(-2).choices[0].finish_reason, 'length');
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, 16);
  assert.ok(chunks.at(-1).usage.prompt_tokens_details.cached_tokens > 0);
});

test('the helper for streams puts the answer together', async () => {
  const stream = client.chat.completions.stream({ ...chat, stream_options: { include_usage: true } });
  const answer = await stream.finalChatCompletion();
  assert.equal(answer.choices[0].message.content, (await client.chat.completions.create(chat)).choices[0].message.content);
  assert.equal((await stream.totalUsage()).completion_tokens, 16);
});

test('several choices stream side by side', async () => {
  const chunks = await collect(await client.chat.completions.create({ ...chat, temperature: 1, seed: 1, n: 3, stream: true }));
  for (const index of [0, 1, 2]) {
    const own = chunks.flatMap(c => c.choices).filter(c => c.index === index);
    assert.equal(own[0].delta.role, 'assistant');
    assert.equal(own.filter(c => c.finish_reason).length, 1);
  }
});

test('completions take texts, ids and lists of them', async () => {
  const plain = { model: 'demo', temperature: 0, max_tokens: 8 };
  const text = await client.completions.create({ ...plain, prompt: 'ROMEO:' });
  assert.match(text.id, /^cmpl-/);
  assert.equal(text.object, 'text_completion');
  assert.equal(text.choices[0].finish_reason, 'length');
  const two = await client.completions.create({ ...plain, prompt: ['ROMEO:', 'JULIET:'] });
  assert.equal(two.choices.length, 2);
  assert.equal(two.choices[0].text, text.choices[0].text);
  const { tokens } = await (await fetch(`${server.url}/tokenize`, { method: 'POST', body: JSON.stringify({ content: 'ROMEO:', add_special: true }) })).json();
  const ids = await client.completions.create({ ...plain, prompt: tokens });
  assert.equal(ids.choices[0].text, text.choices[0].text);
  const chunks = await collect(await client.completions.create({ ...plain, prompt: 'ROMEO:', stream: true }));
  assert.equal(chunks.map(c => c.choices[0].text).join(''), text.choices[0].text);
});

test('completions echo the prompt with its logprobs, computed anew', async () => {
  const answer = await client.completions.create({ model: 'demo', prompt: 'ROMEO: O, speak again', echo: true, logprobs: 2, max_tokens: 4, temperature: 0 });
  assert.ok(answer.choices[0].text.startsWith('ROMEO: O, speak again'));
  assert.equal(answer.choices[0].logprobs.tokens.length, answer.usage.total_tokens);
  assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 0);
});

test('the logprobs of the prompt are told beside the answer', async () => {
  const plain = { model: 'demo', temperature: 0, max_tokens: 4, prompt_logprobs: 2 };
  const answer = await client.completions.create({ ...plain, prompt: 'ROMEO: O, speak again' });
  const places = answer.choices[0].prompt_logprobs;
  assert.equal(places.length, answer.usage.prompt_tokens);
  assert.equal(places[0], null);
  for (const place of places.slice(1)) {
    const tokens = Object.values(place);
    assert.ok([1, 2].every(rank => tokens.some(t => t.rank === rank && t.logprob <= 0 && typeof t.decoded_token === 'string')));
  }
  const spoken = await client.chat.completions.create({ ...plain, messages });
  assert.equal(spoken.prompt_logprobs.length, spoken.usage.prompt_tokens);
  assert.equal(spoken.usage.prompt_tokens_details.cached_tokens, 0);
  await assert.rejects(client.completions.create({ ...plain, prompt: 'x', stream: true }), e => e.status === 400 && e.param === 'prompt_logprobs');
});

test('the tokens of a thought are told', async () => {
  const thinking = [...messages, { role: 'assistant', content: '<think>' }];
  const answer = await client.chat.completions.create({ ...chat, messages: thinking, continue_final_message: true });
  assert.equal(answer.choices[0].message.content, '');
  assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 16);
});

test('a response has every field', async () => {
  const answer = await client.responses.create({
    model: 'demo', instructions: 'You are the king of Naples.', input: 'Speak, my lord.', temperature: 0, top_p: 1, max_output_tokens: 12,
    metadata: { a: 'b' }, store: true, user: 'me', truncation: 'disabled',
  });
  assert.match(answer.id, /^resp_/);
  assert.equal(answer.object, 'response');
  assert.equal(answer.status, 'incomplete');
  assert.equal(answer.incomplete_details.reason, 'max_output_tokens');
  assert.equal(answer.error, null);
  assert.equal(answer.store, true);
  assert.deepEqual(answer.metadata, { a: 'b' });
  assert.equal(answer.output[0].type, 'message');
  assert.equal(answer.output_text, answer.output[0].content[0].text);
  assert.ok(answer.output_text.length > 0);
  assert.equal(answer.usage.output_tokens, 12);
  assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + 12);
  assert.equal(answer.usage.output_tokens_details.reasoning_tokens, 0);
  assert.equal(typeof answer.usage.input_tokens_details.cached_tokens, 'number');
});

test('a response streams typed events', async () => {
  const ask = { model: 'demo', input: [{ role: 'user', content: [{ type: 'input_text', text: 'Speak, my lord.' }] }], temperature: 0, max_output_tokens: 12 };
  const whole = await client.responses.create(ask);
  const events = await collect(await client.responses.create({ ...ask, stream: true }));
  assert.deepEqual(events.map(e => e.sequence_number), events.map((_, i) => i));
  const deltas = events.filter(e => e.type === 'response.output_text.delta').map(e => e.delta);
  assert.equal(deltas.join(''), whole.output_text);
  assert.deepEqual([...new Set(events.map(e => e.type))], [
    'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added', 'response.output_text.delta',
    'response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.incomplete']);
  assert.equal(events.at(-1).response.usage.output_tokens, 12);
  assert.equal(events.at(-1).response.output[0].content[0].text, whole.output_text);
});

test('the helper for streamed responses puts the answer together', async () => {
  const stream = client.responses.stream({ model: 'demo', input: 'Speak, my lord.', temperature: 0, max_output_tokens: 12 });
  const answer = await stream.finalResponse();
  assert.equal(answer.output[0].content[0].text.length > 0, true);
});

test('a response without its past is refused', async () => {
  await assert.rejects(client.responses.create({ model: 'demo', input: 'x', previous_response_id: 'resp_1' }),
    e => e instanceof OpenAI.BadRequestError && e.param === 'previous_response_id');
});

test('embeddings come as floats, whatever travelled', async () => {
  const ask = { model: 'demo', input: ['A horse, a horse!', 'My kingdom for a horse!'] };
  const packed = await client.embeddings.create(ask);  // the client asks for base64
  const plain = await client.embeddings.create({ ...ask, encoding_format: 'float' });
  assert.equal(packed.data.length, 2);
  for (const i of [0, 1]) {
    assert.equal(packed.data[i].index, i);
    assert.deepEqual([...packed.data[i].embedding].map(Math.fround), plain.data[i].embedding.map(Math.fround));
    assert.ok(Math.abs(Math.hypot(...packed.data[i].embedding) - 1) < 1e-5);
  }
  assert.equal(packed.usage.prompt_tokens, packed.usage.total_tokens);
  const cut = await client.embeddings.create({ ...ask, dimensions: 8 });
  assert.equal(cut.data[0].embedding.length, 8);
});

test('errors have their classes, params and codes', async () => {
  const rejects = (promise, kind, param, code) => assert.rejects(promise, e => {
    assert.ok(e instanceof kind, e.constructor.name);
    assert.equal(e.param, param);
    if (code) assert.equal(e.code, code);
    assert.match(e.requestID, /^req-/);
    return true;
  });
  const create = more => client.chat.completions.create({ ...chat, ...more });
  await rejects(create({ messages: [] }), OpenAI.BadRequestError, 'messages');
  await rejects(create({ temperature: -1 }), OpenAI.BadRequestError, 'temperature');
  await rejects(create({ tool_choice: 'required' }), OpenAI.BadRequestError, 'tool_choice');
  await rejects(create({ response_format: { type: 'xml' } }), OpenAI.BadRequestError, 'response_format.type');
  await rejects(create({ model: 'gpt-5' }), OpenAI.NotFoundError, 'model', 'model_not_found');
  await rejects(create({ messages: [{ role: 'user', content: 'word '.repeat(100_000) }] }), OpenAI.BadRequestError, 'messages', 'context_length_exceeded');
  await rejects(client.embeddings.create({ model: 'demo', input: 'x', dimensions: 1_000_000 }), OpenAI.BadRequestError, 'dimensions');
});

test('a wrong key is an authentication error', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'kvik-')), 'keys');
  writeFileSync(file, 'right ann\n');
  const locked = await serve('--api-key-file', file);
  const open = apiKey => new OpenAI({ baseURL: `${locked.url}/v1`, apiKey, maxRetries: 0 });
  await assert.rejects(open('wrong').models.list(), OpenAI.AuthenticationError);
  assert.equal((await open('right').models.list()).data.length, 1);
});

test('with prices an answer tells what it cost, and metrics by whom', async () => {
  const dear = await serve('--price-input', 3, '--price-cached', 0.3, '--price-output', 15);
  const own = new OpenAI({ baseURL: `${dear.url}/v1`, apiKey: 'none', maxRetries: 0 });
  let sum = 0;
  for (const _ of [0, 1]) {
    const { usage } = await own.chat.completions.create(chat);
    const cached = usage.prompt_tokens_details.cached_tokens;
    const cost = ((usage.prompt_tokens - cached) * 3 + cached * 0.3 + usage.completion_tokens * 15) / 1e6;
    assert.ok(Math.abs(usage.kvik.cost - cost) < 1e-12);
    sum += usage.kvik.cost;
  }
  assert.ok(Math.abs(await dear.metric('kvik_key_cost_total{model_name="demo",key="none"}') - sum) < 1e-9);
});

test('a stream that is given up frees its pages', async () => {
  const before = await server.metric('kvik_requests_finished_total{model_name="demo",reason="cancelled"}');
  const stream = await client.chat.completions.create({ ...chat, max_completion_tokens: 100_000, ignore_eos: true, stream: true });
  let n = 0;
  for await (const chunk of stream) {
    n += chunk.choices.length;
    if (n === 5) break;
  }
  await until(() => server.isAtRest(), 'rest');
  assert.equal(await server.metric('kvik_requests_finished_total{model_name="demo",reason="cancelled"}'), before + 1);
});

test('a whole answer that is given up frees its pages', async () => {
  const controller = new AbortController();
  const answer = client.chat.completions.create({ ...chat, max_completion_tokens: 100_000, ignore_eos: true }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 50);
  await assert.rejects(answer, OpenAI.APIUserAbortError);
  await until(() => server.isAtRest(), 'rest');
});

test('a full server says when to come back, and the client does', async () => {
  const small = await serve('--max-running', 1, '--max-queue', 1);
  const open = maxRetries => new OpenAI({ baseURL: `${small.url}/v1`, apiKey: 'none', maxRetries });
  const letGo = await occupy(small.url);
  const waiting = open(0).chat.completions.create(chat);
  await until(async () => await small.metric('kvik_requests_waiting{') === 1, 'a waiting request');
  await assert.rejects(open(0).chat.completions.create(chat), e => {
    assert.ok(e instanceof OpenAI.RateLimitError, e.constructor.name);
    assert.equal(e.code, 'overloaded');
    assert.ok(Number(e.headers.get('retry-after')) >= 1);
    return true;
  });
  const patient = open(5).chat.completions.create(chat);
  await sleep(100);
  letGo();
  assert.equal((await waiting).usage.completion_tokens, 16);
  assert.equal((await patient).usage.completion_tokens, 16);
});

test('a server that stops finishes what runs and refuses the rest with 503', async () => {
  const leaving = await serve();
  const own = new OpenAI({ baseURL: `${leaving.url}/v1`, apiKey: 'none', maxRetries: 0 });
  // Sixteen long answers, so that they still run when a client that waits for its processor has asked again.
  const stream = await own.chat.completions.create({ ...chat, n: 16, max_completion_tokens: 900, stream: true });
  const chunks = [];
  let refused;
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (chunks.length === 1) {
      leaving.terminate();
      await until(async () => (await fetch(`${leaving.url}/readyz`)).status === 503, 'draining');
      refused = await own.chat.completions.create(chat).catch(e => e);
    }
  }
  assert.equal(refused.status, 503);
  assert.ok(refused.headers.get('retry-after'));
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
  assert.equal(await leaving.ended, 0);
});
