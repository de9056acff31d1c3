// The Vercel AI SDK.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, embedMany, generateText, streamText, APICallError } from 'ai';
import { serve, until } from './server.mjs';

const server = await serve();
const kvik = createOpenAICompatible({ name: 'kvik', baseURL: `${server.url}/v1`, includeUsage: true });
const ask = { model: kvik('demo'), system: 'You are the king of Naples.', prompt: 'Speak, my lord.', temperature: 0, maxOutputTokens: 16, maxRetries: 0 };

test('text is generated', async () => {
  const answer = await generateText(ask);
  assert.ok(answer.text.length > 0);
  assert.equal(answer.finishReason, 'length');
  assert.equal(answer.usage.outputTokens, 16);
  assert.ok(answer.usage.inputTokens > 0);
  assert.match(answer.response.id, /^chatcmpl-/);
  assert.equal(answer.response.modelId, 'demo');
});

test('cached tokens are seen', async () => {
  await generateText(ask);
  const answer = await generateText(ask);
  assert.equal(answer.usage.inputTokenDetails.cacheReadTokens, answer.usage.inputTokens - 1);
});

test('a stream says what the whole answer says', async () => {
  const stream = streamText(ask);
  let text = '';
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, (await generateText(ask)).text);
  assert.equal(await stream.finishReason, 'length');
  assert.equal((await stream.usage).outputTokens, 16);
});

test('completions are a model too', async () => {
  const answer = await generateText({ model: kvik.completionModel('demo'), prompt: 'ROMEO:', temperature: 0, maxOutputTokens: 8 });
  assert.ok(answer.text.length > 0);
});

test('texts are embedded', async () => {
  const model = kvik.embeddingModel('demo');
  const { embedding } = await embed({ model, value: 'A horse!' });
  const { embeddings, usage } = await embedMany({ model, values: ['A horse!', 'A kingdom!'] });
  assert.deepEqual(embeddings[0], embedding);
  assert.equal(embeddings.length, 2);
  assert.ok(usage.tokens > 0);
});

test('an error tells its status and whether to try again', async () => {
  await assert.rejects(generateText({ ...ask, model: kvik('gpt-5') }), e => {
    assert.ok(APICallError.isInstance(e));
    assert.equal(e.statusCode, 404);
    assert.equal(e.isRetryable, false);
    return true;
  });
});

test('a stream that is given up frees its pages', async () => {
  const controller = new AbortController();
  const stream = streamText({ ...ask, maxOutputTokens: 2_000, abortSignal: controller.signal, onError() {} });
  let n = 0;
  for await (const part of stream.fullStream) {
    if (part.type === 'text-delta' && ++n === 3) controller.abort();
  }
  await until(() => server.isAtRest(), 'rest');
});
