// Objects by a schema, as the official clients ask for them. What the model says is nonsense; that
// it has the form is what is looked at. Schemas bound every string and number: the model would not.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { z } from 'zod';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { createOpenAI } from '@ai-sdk/openai';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, Output, streamObject } from 'ai';
import { ChatOpenAI } from '@langchain/openai';
import { serve } from './server.mjs';

const server = await serve();
const baseURL = `${server.url}/v1`;
const openai = new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Who is the king, and of what?' }];

const King = z.object({
  name: z.enum(['Alonso', 'Prospero', 'Ferdinand']),
  age: z.number().int().min(1).max(99),
  crowned: z.boolean(),
  titles: z.array(z.string().max(12)).min(1).max(2),
});
// Anthropic's clients take bounds out of a schema and put them into words.
const Answer = z.object({ kingdom: z.enum(['Naples', 'Milan']), crowned: z.boolean() });

const isKing = object => assert.deepEqual(King.parse(object), object);
const isAnswer = object => assert.deepEqual(Answer.parse(object), object);

test('openai: a chat is parsed by its schema', async () => {
  const answer = await openai.chat.completions.parse({ model: 'demo', messages, response_format: zodResponseFormat(King, 'king') });
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(choice.message.refusal, null);
  isKing(choice.message.parsed);
});

test('openai: every choice of four is parsed', async () => {
  const answer = await openai.chat.completions.parse({ model: 'demo', messages, n: 4, temperature: 2, response_format: zodResponseFormat(King, 'king') });
  assert.equal(answer.choices.length, 4);
  for (const { message } of answer.choices) isKing(message.parsed);
});

test('openai: a stream adds up to an object', async () => {
  const stream = openai.chat.completions.stream({ model: 'demo', messages, response_format: zodResponseFormat(King, 'king') });
  isKing((await stream.finalChatCompletion()).choices[0].message.parsed);
});

test('openai: a response is parsed by its schema', async () => {
  const answer = await openai.responses.parse({ model: 'demo', input: 'Who is the king?', text: { format: zodTextFormat(King, 'king') } });
  isKing(answer.output_parsed);
  assert.equal(answer.text.format.type, 'json_schema');
  assert.equal(answer.text.format.name, 'king');
});

test('openai: any object', async () => {
  const answer = await openai.chat.completions.create({ model: 'demo', messages, max_tokens: 400, response_format: { type: 'json_object' }, logit_bias: {} });
  const [choice] = answer.choices;
  assert.equal(choice.message.content[0], '{');
  if (choice.finish_reason === 'stop') assert.equal(typeof JSON.parse(choice.message.content), 'object');
});

test('openai: a schema that says nothing is refused by its path', async () => {
  const schema = { type: 'object', properties: { king: { type: 'monarch' } } };
  await assert.rejects(openai.chat.completions.create({ model: 'demo', messages, response_format: { type: 'json_schema', json_schema: { name: 'king', schema, strict: true } } }),
    e => {
      assert.ok(e instanceof OpenAI.BadRequestError);
      assert.match(e.message, /\/properties\/king\/type/);
      assert.equal(e.param, 'response_format.json_schema.schema');
      return true;
    });
});

test('anthropic: a message is parsed by its schema', async () => {
  const answer = await anthropic.messages.parse({ model: 'demo', max_tokens: 200, messages, output_config: { format: zodOutputFormat(Answer) } });
  assert.equal(answer.stop_reason, 'end_turn');
  isAnswer(answer.parsed_output);
});

test('anthropic: effort alone is no form', async () => {
  const answer = await anthropic.messages.create({ model: 'demo', max_tokens: 4, messages, output_config: { effort: 'high' } });
  assert.equal(answer.content[0].type, 'text');
});

const providers = {
  OpenAI: [createOpenAI({ baseURL, apiKey: 'none' })('demo'), King, {}],
  'OpenAI chats': [createOpenAI({ baseURL, apiKey: 'none' }).chat('demo'), King, {}],
  Anthropic: [createAnthropic({ baseURL, apiKey: 'none' })('demo'), Answer, { anthropic: { structuredOutputMode: 'outputFormat' } }],
  compatible: [createOpenAICompatible({ name: 'kvik', baseURL, supportsStructuredOutputs: true })('demo'), King, {}],
};

for (const [name, [model, schema, providerOptions]] of Object.entries(providers)) {
  const ask = { model, providerOptions, prompt: 'Who is the king?', maxOutputTokens: 300, maxRetries: 0 };
  test(`AI SDK, ${name}: an object is generated`, async () => {
    const { object, finishReason } = await generateObject({ ...ask, schema });
    assert.equal(finishReason, 'stop');
    assert.deepEqual(schema.parse(object), object);
  });
  test(`AI SDK, ${name}: an object is streamed`, async () => {
    const stream = streamObject({ ...ask, schema });
    let n = 0;
    for await (const _ of stream.partialObjectStream) ++n;
    assert.ok(n > 0);
    const object = await stream.object;
    assert.deepEqual(schema.parse(object), object);
  });
}

test('AI SDK: a text whose output is an object', async () => {
  const [model] = providers.compatible;
  const { output } = await generateText({ model, prompt: 'Who is the king?', maxRetries: 0, output: Output.object({ schema: King }) });
  isKing(output);
});

test('LangChain: structured output', async () => {
  const model = new ChatOpenAI({ model: 'demo', apiKey: 'none', configuration: { baseURL }, maxRetries: 0 });
  isKing(await model.withStructuredOutput(King, { name: 'king', method: 'jsonSchema' }).invoke('Who is the king?'));
  isKing(await model.withStructuredOutput(King, { name: 'king', method: 'jsonSchema', strict: true }).invoke('Who is the king?'));
});
