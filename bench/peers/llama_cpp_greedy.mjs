// Greedy continuations by the llama.cpp that npm's node-llama-cpp carries:
//
//   echo '{"file": "m.gguf", "prompts": [[1, 2, 3], [4, 5]], "n": 20}' | node llama_cpp_greedy.mjs
//
// Prints a JSON list for each line of the input: the ids that follow each prompt. There are n of them, or fewer if the generation ends
// and "ends" is true. "kv_type" is the type of K and V (default: F32), "sequences" the number of prompts computed at a time (default: 1),
// "flash" says whether flash attention is used (default: unless K and V are F32; llama.cpp quantizes V only with it).
import { createInterface } from "node:readline";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 2 });
for await (const line of createInterface({ input: process.stdin })) {
  const { file, prompts, n, kv_type = "F32", ends = false, sequences = 1, flash = kv_type !== "F32" } = JSON.parse(line);
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const context = await model.createContext({
    contextSize: Math.max(...prompts.map((tokens) => tokens.length)) + n + 8,
    batchSize: 512,
    sequences,
    threads: { ideal: 2, min: 2 },
    flashAttention: flash,
    experimentalKvCacheKeyType: kv_type,
    experimentalKvCacheValueType: kv_type,
    ignoreMemorySafetyChecks: true,
  });
  const results = prompts.map(() => []);
  let next = 0;
  const work = async () => {
    const sequence = context.getSequence();
    while (next < prompts.length) {
      const i = next++;
      await sequence.clearHistory();
      for await (const id of sequence.evaluate(prompts[i], { temperature: 0, yieldEogToken: true })) {
        if (ends && model.isEogToken(id)) break;
        results[i].push(id);
        if (results[i].length === n) break;
      }
    }
  };
  await Promise.all(Array.from({ length: sequences }, work));
  console.log(JSON.stringify(results));
  await model.dispose();
}
process.exit(0);
