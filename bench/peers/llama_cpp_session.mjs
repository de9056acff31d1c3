// Replays the turns of a session with the llama.cpp of npm's node-llama-cpp: node llama_cpp_session.mjs MODEL TURNS.json THREADS KV_TYPE
// TURNS.json: [{"prompt": [token, …], "n": answer tokens}]. Prints [[time to first token, time of the turn], …] in seconds. Each turn keeps
// the prefix that its prompt has in common with the tokens of the turn before.
import { readFileSync } from "node:fs";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [modelPath, turnsPath, nThreads, kvType] = process.argv.slice(2);
const turns = JSON.parse(readFileSync(turnsPath, "utf8"));
const threads = Number(nThreads);

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads });
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const context = await model.createContext({
  contextSize: Math.max(...turns.map(({ prompt, n }) => prompt.length + n)) + 8,
  batchSize: 512,
  threads: { ideal: threads, min: threads },
  flashAttention: true,
  experimentalKvCacheKeyType: kvType.toUpperCase(),
  experimentalKvCacheValueType: kvType.toUpperCase(),
  ignoreMemorySafetyChecks: true,
});
const sequence = context.getSequence();

const seconds = (begin) => (performance.now() - begin) / 1000;
const times = [];
for (const { prompt, n } of turns) {
  const begin = performance.now();
  // The last token is computed again, because its logits are needed.
  const nKept = Math.min(commonLength(prompt, sequence.contextTokens), prompt.length - 1);
  if (sequence.nextTokenIndex > nKept) {
    await sequence.eraseContextTokenRanges([{ start: nKept, end: sequence.nextTokenIndex }]);
  }
  let first, nDone = 0;
  for await (const _ of sequence.evaluate(prompt.slice(nKept), { temperature: 0, yieldEogToken: true })) {
    first ??= seconds(begin);
    if (++nDone === n) break;
  }
  times.push([first, seconds(begin)]);
}
console.log(JSON.stringify(times));
process.exit(0);

function commonLength(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) ++n;
  return n;
}
