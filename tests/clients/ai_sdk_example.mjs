// The Vercel AI SDK: a tool that is forced, a loop that calls one, and structured output. tests/e2e/frameworks_test.py runs it.
import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, Output, isStepCount, tool } from 'ai';
import { z } from 'zod';

const kvik = createOpenAICompatible({ name: 'kvik', baseURL: process.env.KVIK_URL, supportsStructuredOutputs: true });
const common = { model: kvik('kvik'), temperature: 0, maxRetries: 0, abortSignal: AbortSignal.timeout(240_000) };
const asked = [];
const tools = {
  get_weather: tool({
    description: 'Get the current weather of a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      asked.push(city);
      return `It is 21 degrees and sunny in ${city}.`;
    },
  }),
};

const forced = await generateText({ ...common, tools, toolChoice: 'required', prompt: 'What is the weather in Paris?' });
assert.deepEqual(forced.toolCalls.map(call => [call.toolName, call.input]), [['get_weather', { city: 'Paris' }]]);
console.log('toolChoice ok');

asked.length = 0;
await generateText({ ...common, tools, stopWhen: isStepCount(4), prompt: 'What is the weather in Paris?' });
assert.ok(asked.includes('Paris'), asked);
console.log('steps ok');

const schema = z.object({ name: z.string(), age: z.number().int() });
const { output } = await generateText({ ...common, output: Output.object({ schema }), prompt: 'Bob is 42 years old.' });
assert.deepEqual(output, { name: 'Bob', age: 42 });
console.log('structured output ok');
