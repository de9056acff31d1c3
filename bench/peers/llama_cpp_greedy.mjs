// Greedy continuations by the llama.cpp that npm's node-llama-cpp carries, K and V as f32:
//
//   echo '{"file": "m.gguf", "tokens": [1, 2, 3], "n": 20}' | node llama_cpp_greedy.mjs
//
// A JSON list of ids for each line of the input, in order.
import { createInterface } from "node:readline";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 2 });
for await (const line of createInterface({ input: process.stdin })) {
  const { file, tokens, n } = JSON.parse(line);
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const context = await model.createContext({
    contextSize: tokens.length + n + 8,
    batchSize: 512,
    threads: { ideal: 2, min: 2 },
    flashAttention: false,
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
    ignoreMemorySafetyChecks: true,
  });
  const ids = [];
  for await (const id of context.getSequence().evaluate(tokens, { temperature: 0, yieldEogToken: true })) {
    ids.push(id);
    if (ids.length === n) break;
  }
  console.log(JSON.stringify(ids));
  await model.dispose();
}
process.exit(0);
