// Logits by the llama.cpp that npm's node-llama-cpp carries:
//
//   echo '{"file": "m.gguf", "tokens": [1, 2, 3], "from": 1, "kv_type": "F16", "out": "logits.f32"}' | node llama_cpp_logits.mjs
//
// For each line of the input, "out" gets a row of float32, one for each token of the vocabulary, for every position of "tokens" from
// "from" on. "kv_type" is the type of K and V. Prints a line when a file is complete.
import { closeSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: 2 });
for await (const line of createInterface({ input: process.stdin })) {
  const { file, tokens, from, kv_type, out } = JSON.parse(line);
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const context = await model.createContext({
    contextSize: tokens.length + 8,
    batchSize: 512,
    threads: { ideal: 2, min: 2 },
    flashAttention: kv_type !== "F32", // llama.cpp quantizes V only with flash attention
    experimentalKvCacheKeyType: kv_type,
    experimentalKvCacheValueType: kv_type,
    ignoreMemorySafetyChecks: true,
  });
  const descriptor = openSync(out, "w");
  const wanted = { generateNext: { logits: true, options: { temperature: 1, topK: 0, topP: 1, minP: 0 } } };
  await context.getSequence().controlledEvaluate(
    tokens.map((token, i) => (i < from ? token : [token, wanted])),
    {
      onTokenResult: (_, { next }) => {
        const row = new Float32Array(next.logits.size);
        for (const [token, logit] of next.logits) row[token] = logit;
        next.logits.clear(); // all results are kept until the last one arrives
        writeSync(descriptor, new Uint8Array(row.buffer));
      },
    },
  );
  closeSync(descriptor);
  console.log(out);
  await model.dispose();
}
process.exit(0);
