// Ollama's official client: texts, chats, reasoning and tool calls, whole and as streams; embeddings, and the lists of models.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Ollama } from 'ollama';
import { serve, serveScript, until } from './server.mjs';

const task = 'kvik-task-3', thought = 'Two walls, two coats.', words = 'Let me paint.', lastWords = 'Both walls are painted.';
const wanted = [{ colour: 'red', note: 'caf\u00e9 "wall"\n' }, { colour: 'green', note: '{}' }];
const call = args => `<tool_call>\n${JSON.stringify({ name: 'paint', arguments: args })}\n</tool_call>`;
const demo = await serve();
const scripted = await serveScript({
  answers: [`<think>\n${thought}\n</think>\n\n${words}\n${wanted.map(call).join('\n')}`, 'One wall is left.', lastWords], task,
});
const ollama = new Ollama({ host: demo.url });
const painter = new Ollama({ host: scripted.url });
const few = { num_predict: 8, temperature: 0 };
const tools = [{ type: 'function', function: { name: 'paint', description: 'Paints a wall.', parameters: {
  type: 'object', required: ['colour'], properties: { colour: { type: 'string' }, note: { type: 'string' } } } } }];
const user = { role: 'user', content: `${task}: paint two walls.` };
const isError = (status, sentence) => error => {
  assert.equal(error.status_code, status);
  assert.match(error.message, sentence);
  return true;
};

test('ollama: a stream of a generation adds up to the whole', async () => {
  const whole = await ollama.generate({ model: 'demo', prompt: 'ROMEO:', options: few });
  assert.equal(whole.done_reason, 'length');
  assert.equal(whole.eval_count, 8);
  assert.ok(whole.total_duration >= whole.prompt_eval_duration + whole.eval_duration && whole.eval_duration > 0);
  let text = '', last;
  for await (last of await ollama.generate({ model: 'demo', prompt: 'ROMEO:', options: few, stream: true })) text += last.response;
  assert.equal(text, whole.response);
  assert.equal(last.done, true);
  assert.deepEqual(last.context, whole.context);
});

test('ollama: a stream of a chat adds up to the whole', async () => {
  const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello!' }];
  const whole = await ollama.chat({ model: 'demo:latest', messages, options: few });
  assert.equal(whole.model, 'demo:latest');
  assert.ok(!Number.isNaN(Date.parse(whole.created_at)));
  let text = '';
  for await (const piece of await ollama.chat({ model: 'demo:latest', messages, options: few, stream: true })) text += piece.message.content;
  assert.equal(text, whole.message.content);
});

test('ollama: reasoning, text and calls are separate, and results come back', async () => {
  const { message } = await painter.chat({ model: 'scripted', messages: [user], tools, think: true });
  assert.equal(message.thinking.trim(), thought);
  assert.equal(message.content.trim(), words);
  assert.deepEqual(message.tool_calls.map(c => c.function.arguments), wanted);
  const results = message.tool_calls.map(c => ({ role: 'tool', tool_name: c.function.name, content: 'painted' }));
  const next = await painter.chat({ model: 'scripted', messages: [user, message, ...results], tools });
  assert.equal(next.message.content, lastWords);
});

test('ollama: a stream has whole calls', async () => {
  const calls = [];
  let thinking = '';
  for await (const { message } of await painter.chat({ model: 'scripted', messages: [user], tools, stream: true })) {
    thinking += message.thinking ?? '';
    calls.push(...message.tool_calls ?? []);
  }
  assert.equal(thinking.trim(), thought);
  assert.deepEqual(calls.map(c => c.function.arguments), wanted);
});

test('ollama: an answer keeps to a schema', async () => {
  const format = { type: 'object', required: ['age'], properties: { age: { type: 'integer', minimum: 0, maximum: 9 } } };
  const { message } = await ollama.chat({ model: 'demo', messages: [{ role: 'user', content: 'How old?' }], format, options: { num_predict: 64 } });
  assert.ok(Number.isInteger(JSON.parse(message.content).age));
});

test('ollama: a stream that is aborted is canceled', async () => {
  const client = new Ollama({ host: demo.url });
  const stream = await client.generate({ model: 'demo', prompt: 'ROMEO:', raw: true, stream: true, options: { num_predict: 1000, temperature: 0 } });
  await assert.rejects(async () => {
    for await (const piece of stream) {
      assert.equal(piece.done, false);
      stream.abort();
    }
  }, { name: 'AbortError' });
  await until(() => demo.isAtRest(), 'the end of the canceled request');
});

test('ollama: embeddings', async () => {
  const { embeddings } = await ollama.embed({ model: 'demo', input: ['To be', 'or not', 'To be'] });
  assert.deepEqual(embeddings[0], embeddings[2]);
  assert.notDeepEqual(embeddings[0], embeddings[1]);
  assert.deepEqual((await ollama.embeddings({ model: 'demo', prompt: 'To be' })).embedding, embeddings[0]);
});

test('ollama: the model is listed, shown, loaded and running', async () => {
  const [model] = (await ollama.list()).models;
  assert.equal(model.name, 'demo:latest');
  assert.equal((await ollama.show({ model: model.name })).model_info['llama.context_length'], 1024);
  assert.equal((await ollama.ps()).models[0].name, model.name);
  assert.equal((await ollama.generate({ model: model.name, prompt: '' })).done_reason, 'load');
  assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+$/);
});

test('ollama: errors are sentences with their status', async () => {
  const messages = [{ role: 'user', content: 'Hi' }];
  await assert.rejects(ollama.chat({ model: 'missing', messages }), isError(404, /model 'missing' not found/));
  await assert.rejects(ollama.chat({ model: 'demo', messages: [{ ...messages[0], images: ['aGk='] }] }), isError(400, /images are not supported/));
  await assert.rejects(ollama.chat({ model: 'demo', messages, options: { temperature: -1 } }), isError(400, /temperature is -1/));
});

test('ollama: a key goes in a header', async () => {
  const locked = await serve('--api-key', 'secret');
  await assert.rejects(new Ollama({ host: locked.url }).list(), isError(401, /API key/));
  const client = new Ollama({ host: locked.url, headers: { Authorization: 'Bearer secret' } });
  assert.equal((await client.chat({ model: 'demo', messages: [user], options: few })).done, true);
});
