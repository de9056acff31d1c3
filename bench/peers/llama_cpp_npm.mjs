// Benchmarks the llama.cpp of npm's node-llama-cpp, with the flags and output of llama-bench:
//
//   node llama_cpp_npm.mjs -m model.gguf -p 512 -n 64 -d 0 -t 2 -r 3 [-npl 16] [-ctk q8_0 -ctv q8_0]
//                         [--lora adapter.gguf] -o json
//
// Prints a JSON array with an object for each test: n_prompt or n_gen of each of n_seq sequences after n_depth tokens, and samples_ts and
// avg_ts in tokens per second of all sequences together. The first, untimed run of each test warms up. Tokens are random, decoding is
// greedy, and only the CPU is used.
import { parseArgs } from "node:util";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

if (process.argv.includes("--help")) {
  console.log("-m -p -n -d, --n-depth -t -r -npl -ctk -ctv --lora -o json");
  process.exit(0);
}
const { values: flags } = parseArgs({
  options: {
    m: { type: "string", short: "m" },
    p: { type: "string", short: "p", default: "512" },
    n: { type: "string", short: "n", default: "64" },
    d: { type: "string", short: "d", default: "0" },
    t: { type: "string", short: "t", default: "2" },
    r: { type: "string", short: "r", default: "3" },
    o: { type: "string", short: "o", default: "json" },
    npl: { type: "string", default: "1" },
    ctk: { type: "string", default: "f16" },
    ctv: { type: "string", default: "f16" },
    lora: { type: "string" },
  },
  args: process.argv.slice(2).map((a) => (/^-(npl|ctk|ctv)$/.test(a) ? "-" + a : a)),
});
const [nPrompt, nGen, nDepth, nThreads, nRuns, nSequences] = [flags.p, flags.n, flags.d, flags.t, flags.r, flags.npl].map(Number);

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: nThreads });
const model = await llama.loadModel({ modelPath: flags.m, gpuLayers: 0 });
const context = await model.createContext({
  sequences: nSequences,
  contextSize: nDepth + Math.max(nPrompt, nGen) + 8,
  batchSize: 512,
  threads: { ideal: nThreads, min: nThreads },
  flashAttention: true,
  experimentalKvCacheKeyType: flags.ctk.toUpperCase(),
  experimentalKvCacheValueType: flags.ctv.toUpperCase(),
  lora: flags.lora,
  ignoreMemorySafetyChecks: true,
});
const sequences = Array.from({ length: nSequences }, () => context.getSequence());
const randomTokens = (n) => Array.from({ length: n }, () => 300 + Math.floor(Math.random() * 1000));

async function decode(sequence, n) {
  for await (const _ of sequence.evaluate(randomTokens(1), { temperature: 0, yieldEogToken: true })) {
    if (--n === 0) return;
  }
}

// Restores the context of a sequence: it is computed once, then truncated to its length before each sample.
async function rewind(sequence, nTokens) {
  if (sequence.nextTokenIndex > nTokens) await sequence.eraseContextTokenRanges([{ start: nTokens, end: sequence.nextTokenIndex }]);
  const nMissing = nTokens - sequence.nextTokenIndex;
  if (nMissing > 0) await sequence.evaluateWithoutGeneratingNewTokens(randomTokens(nMissing));
}

// Returns tokens per second after nBefore tokens. The computation of these is not timed.
async function timed(work, nTokens, nBefore) {
  const together = (job) => Promise.all(sequences.map(job));
  await together((s) => rewind(s, nBefore));
  const begin = performance.now();
  await together((s) => work(s, nTokens));
  return (1000 * nTokens * nSequences) / (performance.now() - begin);
}

async function test(work, nTokens, names) {
  await timed(work, Math.min(nTokens, 64), 0);
  const samples = [];
  for (let i = 0; i < nRuns; ++i) samples.push(await timed(work, nTokens, nDepth));
  const average = samples.reduce((a, b) => a + b) / samples.length;
  return { ...names, n_depth: nDepth, n_seq: nSequences, n_threads: nThreads, avg_ts: average, samples_ts: samples };
}

const prefill = (s, n) => s.evaluateWithoutGeneratingNewTokens(randomTokens(n));
const results = [];
if (nPrompt > 0) results.push(await test(prefill, nPrompt, { n_prompt: nPrompt, n_gen: 0 }));
if (nGen > 0) results.push(await test(decode, nGen, { n_prompt: 0, n_gen: nGen }));
console.log(JSON.stringify(results, null, 2));
process.exit(0);
