// Agents of OpenAI's Agents SDK and of LangChain: a loop of tools, over chats and over responses, whole and streamed. The
// model is scripted: it asks for a file to be read, then for another text to be written, then says that it is done.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from '@openai/agents';
import { createAgent, tool as langchainTool } from 'langchain';
import { ChatOpenAI } from '@langchain/openai';
import { serveScript } from './server.mjs';

setTracingDisabled(true);
const task = 'kvik-task-9';
const before = 'Once upon a time.\n', after = 'Once upon a time, caf\u00e9s closed at \u201cnoon\u201d.\nThe end, {really}.';
const lastWords = 'The story has its ending now.';
const folder = mkdtempSync(join(tmpdir(), 'kvik-loop-'));
const path = join(folder, 'story.txt');
const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const server = await serveScript({
  answers: ['Let me look.\n' + call('read_file', { path }), call('write_file', { path, text: after }), lastWords], task,
});
const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const words = `${task}: read ${path}, and write a better ending into it.`;

const Path = z.object({ path: z.string() });
const PathAndText = z.object({ path: z.string(), text: z.string() });
// Not strict: a script knows nothing of the tokens in which a form has its marks come.
const open = schema => ({ ...z.toJSONSchema(schema), additionalProperties: true });
const doings = () => {
  const done = [];
  return {
    done,
    read: ({ path }) => { done.push('read'); return readFileSync(path, 'utf8'); },
    write: ({ path, text }) => { done.push('write'); writeFileSync(path, text); return 'written'; },
  };
};
const begin = () => writeFileSync(path, before);
const isDone = (done, said) => {
  assert.deepEqual(done, ['read', 'write']);
  assert.equal(readFileSync(path, 'utf8'), after);
  assert.equal(said, lastWords);
};
test.after(() => rmSync(folder, { recursive: true }));

for (const [api, Model] of [['responses', OpenAIResponsesModel], ['chats', OpenAIChatCompletionsModel]]) {
  const agentFor = ({ read, write }) => new Agent({
    name: 'Writer', instructions: 'You write endings.', model: new Model(client, 'scripted'),
    tools: [
      tool({ name: 'read_file', description: 'Reads a file.', parameters: open(Path), strict: false, execute: read }),
      tool({ name: 'write_file', description: 'Writes a file.', parameters: open(PathAndText), strict: false, execute: write }),
    ],
  });

  test(`openai agents over ${api}: a loop changes a file`, async () => {
    begin();
    const all = doings();
    const result = await run(agentFor(all), words);
    isDone(all.done, result.finalOutput);
  });

  test(`openai agents over ${api}: a streamed loop changes a file`, async () => {
    begin();
    const all = doings();
    const stream = await run(agentFor(all), words, { stream: true });
    let said = '';
    for await (const piece of stream.toTextStream()) said += piece;
    await stream.completed;
    isDone(all.done, stream.finalOutput);
    assert.ok(said.startsWith('Let me look.') && said.endsWith(lastWords), said);
  });
}

for (const [api, options] of [['chats', {}], ['responses', { useResponsesApi: true }]]) {
  const agentFor = ({ read, write }) => {
    const model = new ChatOpenAI({ model: 'scripted', apiKey: 'none', maxRetries: 0, configuration: { baseURL: `${server.url}/v1` }, ...options });
    return createAgent({
      model, systemPrompt: 'You write endings.',
      tools: [
        langchainTool(read, { name: 'read_file', description: 'Reads a file.', schema: Path }),
        langchainTool(write, { name: 'write_file', description: 'Writes a file.', schema: PathAndText }),
      ],
    });
  };
  const input = { messages: [{ role: 'user', content: words }] };
  const textOf = ({ content }) => typeof content === 'string' ? content : content.map(part => part.text ?? '').join('');

  test(`langchain over ${api}: a loop changes a file`, async () => {
    begin();
    const all = doings();
    const { messages } = await agentFor(all).invoke(input);
    isDone(all.done, textOf(messages.at(-1)));
  });

  test(`langchain over ${api}: a streamed loop changes a file`, async () => {
    begin();
    const all = doings();
    let said = '';
    for await (const [message] of await agentFor(all).stream(input, { streamMode: 'messages' })) {
      if (message.getType() === 'ai') said += textOf(message);
    }
    assert.ok(said.startsWith('Let me look.') && said.endsWith(lastWords), said);
    isDone(all.done, lastWords);
  });
}

test('anthropic: the tool runner changes a file', async () => {
  begin();
  const { done, read, write } = doings();
  const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
  const text = { type: 'string' };
  const message = await anthropic.beta.messages.toolRunner({
    model: 'scripted', max_tokens: 2000, messages: [{ role: 'user', content: words }],
    tools: [
      { name: 'read_file', description: 'Reads a file.', input_schema: { type: 'object', properties: { path: text }, required: ['path'] },
        run: read, parse: input => input },
      { name: 'write_file', description: 'Writes a file.', input_schema: { type: 'object', properties: { path: text, text }, required: ['path', 'text'] },
        run: write, parse: input => input },
    ],
  });
  isDone(done, message.content.map(block => block.text ?? '').join(''));
  assert.equal(message.stop_reason, 'end_turn');
});
