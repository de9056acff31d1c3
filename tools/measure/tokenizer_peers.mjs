// Compares Kvik's tokenizers with other libraries on generated texts.
//   npm install --prefix bench/peers
//   node tools/measure/tokenizer_peers.mjs VOCABULARY.gguf [--as KIND] [--texts 100000] [--seed 1]
//        [--peers tokenizers,tokenizers-js,llama.cpp] [--tool build/tests/tokenizer_tool] [--packages bench/peers]
// KIND is AS of tests/support/tokenizer_tool.cpp. The peers read the same vocabulary: a GGUF file (llama.cpp) or an equivalent
// tokenizer.json (Hugging Face's library in Rust and in JavaScript).
// Prints one JSON object: for each peer the number of differing texts, and some of these texts reduced character by character to the
// shortest text that still differs, with both lists of ids.
import {spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {generator, invalid, text} from './tokenizer_texts.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const {values: options, positionals} = parseArgs({
  allowPositionals: true,
  options: {
    as: {type: 'string', default: 'itself'},
    texts: {type: 'string', default: '100000'},
    seed: {type: 'string', default: '1'},
    peers: {type: 'string', default: 'tokenizers,tokenizers-js,llama.cpp'},
    tool: {type: 'string', default: join(ROOT, 'build/tests/tokenizer_tool')},
    packages: {type: 'string', default: join(ROOT, 'bench/peers')},
  },
});
const VOCABULARY = positionals[0];
const MOST_REDUCED = 300;  // number of differing texts that are reduced

function kvik(what, texts) {
  const parts = [];
  for (const text of texts ?? []) {
    const bytes = Buffer.from(text);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    parts.push(length, bytes);
  }
  const run = spawnSync(options.tool, [what, VOCABULARY, options.as],
                        {input: Buffer.concat(parts), maxBuffer: 1 << 30});
  if (run.status !== 0) throw new Error(`tokenizer_tool ${what}: ${run.stderr} ${run.error ?? ''}`);
  return run.stdout;
}

function kvikIds(texts) {
  const lines = kvik('ids', texts).toString().split('\n');
  return lines.slice(0, texts.length);
}

// Each peer maps texts to lines of ids.
const packages = createRequire(join(resolve(options.packages), 'package.json'));
const PEERS = {
  async tokenizers() {
    const {Tokenizer} = packages('@anush008/tokenizers');
    const tokenizer = Tokenizer.fromString(kvik('json').toString());
    return async texts => {
      const lines = [];
      for (let i = 0; i < texts.length; i += 1000) {
        const batch = await tokenizer.encodeBatch(texts.slice(i, i + 1000), {addSpecialTokens: false});
        for (const encoding of batch) lines.push(encoding.getIds().join(' '));
      }
      return lines;
    };
  },
  async 'tokenizers-js'() {
    const {Tokenizer} = packages('@huggingface/tokenizers');
    const tokenizer = new Tokenizer(JSON.parse(kvik('json').toString()), {});
    return async texts => texts.map(text => tokenizer.encode(text, {add_special_tokens: false}).ids.join(' '));
  },
  async 'llama.cpp'() {
    const folder = mkdtempSync(join(tmpdir(), 'kvik-peers-'));
    const path = join(folder, 'vocabulary.gguf');
    writeFileSync(path, kvik('gguf'));
    const {getLlama, LlamaLogLevel} = await import(packages.resolve('node-llama-cpp'));
    const llama = await getLlama({gpu: false, logLevel: LlamaLogLevel.error, build: 'never'});
    const model = await llama.loadModel({modelPath: path, vocabOnly: true});
    rmSync(folder, {recursive: true});
    return async texts => texts.map(text => text === '' ? '' : model.tokenize(text, false).join(' '));
  },
};

// Reduces every text from left to right while it still differs. change(characters, at) returns the characters to try instead; if they do
// not differ, the next position is tried.
async function shrink(texts, peer, change) {
  let current = texts.map(text => ({text: [...text], at: 0}));
  const done = [];
  while (current.length > 0) {
    const tried = current.map(({text, at}) => change(text, at).join(''));
    const ours = kvikIds(tried), theirs = await peer(tried);
    const next = [];
    current.forEach(({text, at}, i) => {
      const goes = ours[i] !== theirs[i] && tried[i] !== text.join('');
      const kept = goes ? [...tried[i]] : text;
      const state = {text: kept, at: kept.length < text.length ? at : at + 1};
      if (state.at < state.text.length) next.push(state);
      else done.push(state.text.join(''));
    });
    current = next;
  }
  return done;
}

// Returns the shortest texts that still differ, with as many letters "a" as possible.
async function reduce(texts, peer) {
  const without = (text, at) => [...text.slice(0, at), ...text.slice(at + 1)];
  const plainer = (text, at) => [...text.slice(0, at), 'a', ...text.slice(at + 1)];
  let all = await shrink(texts, peer, without);
  all = await shrink(await shrink(all, peer, plainer), peer, without);
  const kinds = new Map();
  for (const text of all) kinds.set(text, (kinds.get(text) ?? 0) + 1);
  const least = [...kinds.keys()];
  const ours = kvikIds(least), theirs = await peer(least);
  return least.map((text, i) => ({text, n: kinds.get(text), kvik: ours[i], peer: theirs[i]}))
      .sort((a, b) => b.n - a.n);
}

async function compare(name, texts, ours) {
  let peer;
  try {
    peer = await PEERS[name]();
  } catch (error) {
    return {loads: false, why: String(error.message ?? error).slice(0, 300)};
  }
  const theirs = await peer(texts);
  const differing = texts.filter((_, i) => ours[i] !== theirs[i]);
  return {loads: true, differing: differing.length, kinds: await reduce(differing.slice(0, MOST_REDUCED), peer)};
}

const random = generator(Number(options.seed));
const texts = Array.from({length: Number(options.texts)}, () => text(random));
const broken = Array.from({length: Math.ceil(texts.length / 10)}, () => invalid(random));
const ours = kvikIds(texts);
const back = kvik('back', [...texts, ...broken]).toString();
const result = {
  vocabulary: VOCABULARY,
  as: options.as,
  texts: texts.length,
  texts_with_invalid_bytes: broken.length,
  not_back: [...back].filter(c => c === '0').length,
  peers: {},
};
for (const name of options.peers.split(',')) result.peers[name] = await compare(name, texts, ours);
console.log(JSON.stringify(result, null, 1));
process.exit(0);
