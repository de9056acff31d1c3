import { test } from 'node:test';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { serve, until } from './server.mjs';

const server = await serve('--max-running', 256);
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
const words = ['crown', 'horse', 'ghost', 'queen', 'storm', 'island', 'dagger', 'feast'];
const ask = i => ({ model: 'demo', temperature: 0, messages: [{ role: 'user', content: `Speak of the ${words[i % words.length]}, my lord.` }] });

async function chat(i) {
  let text = '', finish;
  for await (const chunk of await openai.chat.completions.create({ ...ask(i), max_completion_tokens: 24, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  assert.ok(finish);
  return text;
}
const message = async i => (await anthropic.messages.stream({ ...ask(i), max_tokens: 24 }).finalMessage()).content[0].text;

test('two hundred streams of both dialects say what each says alone', async () => {
  const alone = [];
  for (const i of words.keys()) alone.push(await chat(i));
  const together = await Promise.all(Array.from({ length: 200 }, (_, i) => (i % 2 ? message(i) : chat(i))));
  together.forEach((text, i) => assert.equal(text, alone[i % words.length]));
  await until(() => server.isAtRest(), 'rest');
});

test('two hundred streams, every other one given up, leave no page behind', async () => {
  const streams = Array.from({ length: 200 }, async (_, i) => {
    const stream = await openai.chat.completions.create({ ...ask(i), max_completion_tokens: 24, stream: true });
    for await (const _ of stream) if (i % 2) break;
  });
  await Promise.all(streams);
  await until(() => server.isAtRest(), 'rest');
});
