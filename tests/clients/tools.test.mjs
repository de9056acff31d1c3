// Tests tools with the official clients: parallel calls, streamed deltas, reasoning that is sent back with calls, forced calls, and
// stored responses. The model is scripted: it writes reasoning, text and two calls, and after two results its final answer.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { serveScript } from './server.mjs';

const task = 'kvik-task-3';
const thought = 'Two walls, two coats.', words = 'Let me paint.', lastWords = 'Both walls are painted.';
const wanted = [{ colour: 'red', note: 'caf\u00e9 "wall"\n' }, { colour: 'green', note: '{}' }];
const call = args => `<tool_call>\n${JSON.stringify({ name: 'paint', arguments: args })}\n</tool_call>`;
const server = await serveScript({
  answers: [`<think>\n${thought}\n</think>\n\n${words}\n${wanted.map(call).join('\n')}`, 'One wall is left.', lastWords], task,
});
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
const schema = {
  type: 'object', additionalProperties: false, required: ['colour', 'note'],
  properties: { colour: { type: 'string', enum: ['red', 'green'] }, note: { type: 'string', maxLength: 20 } },
};
const user = { role: 'user', content: `${task}: paint two walls.` };
const chat = { model: 'scripted', messages: [user], tools: [{ type: 'function', function: { name: 'paint', parameters: schema } }] };
const messages = { model: 'scripted', max_tokens: 1000, messages: [user], tools: [{ name: 'paint', input_schema: schema }] };
const responses = { model: 'scripted', input: [user], tools: [{ type: 'function', name: 'paint', parameters: schema, strict: false }] };
const isWanted = calls => assert.deepEqual(calls, wanted);

test('openai: a chat calls twice, and goes on behind the results', async () => {
  const { choices: [{ message, finish_reason }] } = await openai.chat.completions.create(chat);
  assert.equal(finish_reason, 'tool_calls');
  assert.equal(message.content, words);
  assert.equal(message.reasoning_content.trim(), thought);
  isWanted(message.tool_calls.map(c => JSON.parse(c.function.arguments)));
  const ids = message.tool_calls.map(c => c.id);
  assert.equal(new Set(ids).size, 2);
  const results = ids.map(id => ({ role: 'tool', tool_call_id: id, content: 'painted' }));
  const next = await openai.chat.completions.create({ ...chat, messages: [user, message, ...results] });
  assert.equal(next.choices[0].message.content, lastWords);
  assert.equal(next.choices[0].finish_reason, 'stop');
});

test('openai: the deltas of a chat add up to the same', async () => {
  const stream = openai.chat.completions.stream({ ...chat, stream_options: { include_usage: true } });
  const pieces = {};
  stream.on('chunk', ({ choices }) => {
    for (const c of choices[0]?.delta.tool_calls ?? []) pieces[c.index] = (pieces[c.index] ?? '') + (c.function?.arguments ?? '');
  });
  const { choices: [{ message, finish_reason }] } = await stream.finalChatCompletion();
  assert.equal(finish_reason, 'tool_calls');
  assert.equal(message.content, words);
  isWanted(message.tool_calls.map(c => JSON.parse(c.function.arguments)));
  isWanted(Object.values(pieces).map(JSON.parse));
});

test('openai: a forced tool is called by its schema, whatever the model would rather say', async () => {
  for (const tool_choice of ['required', { type: 'function', function: { name: 'paint' } }]) {
    const { choices: [{ message }] } = await openai.chat.completions.create({ ...chat, tool_choice, parallel_tool_calls: false });
    assert.equal(message.tool_calls.length, 1);
    const made = JSON.parse(message.tool_calls[0].function.arguments);
    assert.ok(['red', 'green'].includes(made.colour) && [...made.note].length <= 20, JSON.stringify(made));
  }
});

test('openai: a response calls, remembers, and is forgotten', async () => {
  const first = await openai.responses.create({ ...responses, reasoning: { effort: 'low' } });
  assert.deepEqual(first.output.map(item => item.type), ['reasoning', 'message', 'function_call', 'function_call']);
  const calls = first.output.filter(item => item.type === 'function_call');
  isWanted(calls.map(c => JSON.parse(c.arguments)));
  assert.equal(first.output_text, words);
  const input = calls.map(c => ({ type: 'function_call_output', call_id: c.call_id, output: 'painted' }));
  const second = await openai.responses.create({ ...responses, input, previous_response_id: first.id });
  assert.equal(second.output_text, lastWords);
  assert.equal(second.previous_response_id, first.id);
  const kept = await openai.responses.retrieve(second.id);
  assert.deepEqual(kept.output, second.output);
  await openai.responses.delete(first.id);
  await assert.rejects(openai.responses.retrieve(first.id), OpenAI.NotFoundError);
});

test('openai: the events of a streamed response add up, in order', async () => {
  const types = new Set();
  let n = 0;
  const stream = openai.responses.stream(responses);
  const built = {};
  for await (const event of stream) {
    assert.equal(event.sequence_number, n++);
    types.add(event.type);
    if (event.type === 'response.function_call_arguments.delta') built[event.output_index] = (built[event.output_index] ?? '') + event.delta;
  }
  isWanted(Object.values(built).map(JSON.parse));
  for (const type of ['response.created', 'response.in_progress', 'response.reasoning_text.delta', 'response.output_text.delta',
    'response.function_call_arguments.done', 'response.output_item.done', 'response.completed']) assert.ok(types.has(type), type);
  const final = await stream.finalResponse();
  isWanted(final.output.filter(item => item.type === 'function_call').map(c => JSON.parse(c.arguments)));
});

test('openai: sealed thoughts come back where nothing is stored', async () => {
  const first = await openai.responses.create({ ...responses, store: false, include: ['reasoning.encrypted_content'] });
  assert.ok(first.output[0].encrypted_content);
  const results = first.output.filter(item => item.type === 'function_call')
    .map(c => ({ type: 'function_call_output', call_id: c.call_id, output: 'painted' }));
  const sealed = first.output.map(item => item.type === 'reasoning' ? { ...item, content: [] } : item);
  const second = await openai.responses.create({ ...responses, store: false, input: [user, ...sealed, ...results] });
  assert.equal(second.output_text, lastWords);
});

test('anthropic: thoughts beside calls, which come back with their signature', async () => {
  const first = await anthropic.messages.create({ ...messages, thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 2000 });
  assert.deepEqual(first.content.map(block => block.type), ['thinking', 'text', 'tool_use', 'tool_use']);
  assert.equal(first.stop_reason, 'tool_use');
  assert.ok(first.content[0].signature);
  isWanted(first.content.slice(2).map(block => block.input));
  const results = first.content.slice(2).map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'painted' }));
  const second = await anthropic.messages.create({
    ...messages, messages: [user, { role: 'assistant', content: first.content }, { role: 'user', content: results }],
  });
  assert.equal(second.content[0].text, lastWords);
  assert.equal(second.stop_reason, 'end_turn');
});

test('anthropic: the deltas of a stream add up to the same', async () => {
  const stream = anthropic.messages.stream(messages);
  const built = [];
  stream.on('streamEvent', event => {
    if (event.type === 'content_block_start' && event.content_block.type === 'tool_use') built.push('');
    if (event.delta?.type === 'input_json_delta') built[built.length - 1] += event.delta.partial_json;
  });
  const final = await stream.finalMessage();
  isWanted(final.content.filter(block => block.type === 'tool_use').map(block => block.input));
  isWanted(built.map(JSON.parse));
});

test('anthropic: any tool, and one by its name', async () => {
  for (const tool_choice of [{ type: 'any', disable_parallel_tool_use: true }, { type: 'tool', name: 'paint' }]) {
    const { content, stop_reason } = await anthropic.messages.create({ ...messages, tool_choice });
    assert.equal(stop_reason, 'tool_use');
    assert.deepEqual(content.map(block => block.type), ['tool_use']);
    assert.ok(['red', 'green'].includes(content[0].input.colour));
  }
});
