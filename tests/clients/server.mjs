// A running `kvik serve` for the tests of this folder.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import assert from 'node:assert/strict';

const binary = process.env.KVIK_BINARY ?? new URL('../../build/kvik', import.meta.url).pathname;
const patienceMs = 60_000;

export const sleep = ms => new Promise(done => setTimeout(done, ms));

export async function until(condition, what) {
  const deadline = Date.now() + patienceMs;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `${what}: not in time`);
    await sleep(10);
  }
}

const freePort = () => new Promise(done => {
  const probe = createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => done(port));
  });
});

// Ends with the tests of the file.
export const serve = (...flags) => serveModel('demo', ...flags);

// Serves a model that answers answers[i] after i tool results if a user message contains `task`.
// See tests/e2e/scripted_model.py.
export async function serveScript({ answers, task, format = 'hermes' }, ...flags) {
  const folder = mkdtempSync(join(tmpdir(), 'kvik-script-'));
  after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'scripted.gguf');
  const tool = new URL('../e2e/scripted_model.py', import.meta.url).pathname;
  const made = spawnSync('/usr/bin/python3', [tool, path, JSON.stringify({ answers, task, format })], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  return serveModel(path, ...flags);
}

async function serveModel(model, ...flags) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(binary, ['serve', model, '--port', port, '--threads', 1, '--kv-memory', '64MiB', ...flags],
    { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', data => { said = (said + data).slice(-20_000); });
  const ended = new Promise(done => child.on('exit', code => done(code)));
  await until(async () => {
    assert.equal(child.exitCode, null, said);
    return fetch(`${url}/health`).then(answer => answer.ok, () => false);
  }, 'kvik serve');
  const stop = async () => {
    if (child.exitCode === null) child.kill('SIGINT');
    assert.equal(await ended, 0, said);
  };
  after(stop);
  return {
    url,
    ended,
    terminate: () => child.kill('SIGTERM'),
    // The value of a sample of /metrics whose line begins like this.
    async metric(beginning, headers = {}) {
      const page = await (await fetch(`${url}/metrics`, { headers })).text();
      const line = page.split('\n').find(l => l.startsWith(beginning));
      return line === undefined ? undefined : Number(line.split(' ').at(-1));
    },
    // Nobody's work is left: no page is leased, nothing runs.
    async isAtRest() {
      const page = await (await fetch(`${url}/metrics`)).text();
      const sum = pattern => page.split('\n').filter(l => pattern.test(l)).reduce((s, l) => s + Number(l.split(' ').at(-1)), 0);
      return sum(/^kvik_requests_(running|waiting)\{/) === 0 && sum(/^kvik_kv_pages\{.*state="(leased|sealed)"/) === 0;
    },
  };
}

// Holds the one place of a server with --max-running 1 until it is let go.
export async function occupy(url) {
  const controller = new AbortController();
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST', signal: controller.signal,
    body: JSON.stringify({ prompt: 'O', max_tokens: 100_000, ignore_eos: true, stream: true }),
  });
  assert.equal(answer.status, 200);
  await answer.body.getReader().read();
  return () => controller.abort();
}
