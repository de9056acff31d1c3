// Generates answers with the llama.cpp of npm's node-llama-cpp, alternately with and without its prompt lookup of n-grams:
//
//   node llama_cpp_speculation.mjs model.gguf replay.jsonl 2 128 0
//
// The prompt of each line of the replay is used; the answer is the model's own. Prints a JSON object: tokens per second after the first
// token with and without the lookup, and the number of its accepted and rejected draft tokens.
import { readFileSync } from "node:fs";
import { getLlama, InputLookupTokenPredictor, LlamaLogLevel } from "node-llama-cpp";

const [file, replay, nThreads, nTokens, temperature] = process.argv.slice(2);
const prompts = readFileSync(replay, "utf8").trim().split("\n").map((line) => JSON.parse(line).prompt);
const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: Number(nThreads) });
const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });

async function answer(prompt, hasLookup) {
  const context = await model.createContext({
    contextSize: 4096,
    batchSize: 512,
    threads: { ideal: Number(nThreads), min: Number(nThreads) },
    flashAttention: true,
  });
  const tokenPredictor = hasLookup ? new InputLookupTokenPredictor() : undefined;
  const sequence = context.getSequence({ tokenPredictor });
  const tokens = model.tokenize(prompt);
  tokenPredictor?.updateInputTokens(tokens);
  let first, n = 0;
  for await (const _ of sequence.evaluate(tokens, { temperature: Number(temperature), seed: 1, yieldEogToken: true })) {
    if (n === 0) first = performance.now();
    if (++n > Number(nTokens)) break;
  }
  const seconds = (performance.now() - first) / 1e3;
  const { validated = 0, refuted = 0 } = sequence.tokenPredictions;
  await context.dispose();
  return { n: n - 1, seconds, validated, refuted };
}

const sums = { off: { n: 0, seconds: 0 }, lookup: { n: 0, seconds: 0, validated: 0, refuted: 0 } };
await answer(prompts[0], false); // warms up
for (const prompt of prompts) {
  for (const way of ["off", "lookup"]) {
    const one = await answer(prompt, way === "lookup");
    for (const key of Object.keys(sums[way])) sums[way][key] += one[key];
  }
}
const { off, lookup } = sums;
console.log(JSON.stringify({
  tok_s: lookup.n / lookup.seconds,
  tok_s_off: off.n / off.seconds,
  ratio: (lookup.n / lookup.seconds) / (off.n / off.seconds),
  validated: lookup.validated,
  refuted: lookup.refuted,
}));
process.exit(0);
