import assert from "node:assert/strict";
import { test } from "node:test";
import { h, type ComponentChild, type VNode } from "preact";
import { MachineSteps } from "../../src/explain/machine_steps";
import type { Figures, Fit, Report, Run, Way } from "../../src/explain/report";
import { Story } from "../../src/explain/story";

// Returns all text of a report, and the names of its lines. Hooks need a browser, so parts with hooks are not
// rendered, and their properties are read instead.
function words(node: ComponentChild): string {
  if (Array.isArray(node)) return (node as ComponentChild[]).map(words).join("");
  if (node === null || node === undefined || typeof node === "boolean") return "";
  if (typeof node !== "object") return String(node);
  const { type, props } = node as VNode<Record<string, unknown>>;
  if (typeof type !== "function") return words(props["children"] as ComponentChild);
  if (["Plot", "Bars", "RowsDrawing", "Timeline"].includes(type.name)) {
    const lines = (props["lines"] ?? []) as { name: string }[];
    return lines.map((line) => `[${line.name}]`).join("");
  }
  return words((type as (p: object) => ComponentChild)(props));
}

const fit = (exponent: number, r_squared: number): Fit => ({ exponent, exponent_error: 0.05, factor: 1, r_squared, from: 100, to: 130, points: 31 });

function run(way: Way, ms: number[], r_squared: number, exponent: number): Run {
  return {
    way, ms, cached_tokens: way === "warm" ? 99 : 0, queue_ms: 0, kv_rows: ms.map((_, i) => 100 + i), kv_bytes: ms.map(() => 4096),
    n_seen: ms.map((_, i) => 100 + i), beside: ms.map(() => 0), fit: fit(exponent, r_squared), late_fit: fit(exponent, r_squared),
  };
}

function report(r_squared: number, naiveMs: number): Report {
  const ms = (first: number, rest: number) => [first, ...Array.from({ length: 31 }, () => rest)];
  return {
    model: "m", context: 256, prompt: { tokens: 100, text: "", pieces: ["a"] }, answer: { tokens: 32, text: "", pieces: ["b"] },
    runs: [run("cold", ms(10, 1), 0.1, 0.03), run("naive", ms(10, naiveMs), r_squared, 0.93), run("warm", ms(1, 1), 0.1, 0.01)],
    bits: { compared: 5, different: 0, equal: true }, repeats: 3,
  };
}

test("no exponent is printed where R² is below 0.8", () => {
  const text = words(h(Story, { report: report(0.79, 10) }));
  assert.doesNotMatch(text, /to the power/);
  assert.match(text, /without a cache: no power of n explains the times/);
  assert.match(text, /run 3 times; each token has the minimum of its times/);
  const fitted = words(h(Story, { report: report(0.95, 10) }));
  assert.match(fitted, /without a cache: n to the power 0\.93/);
  assert.match(fitted, /\[fitted: tokens seen to the power 0\.93\]/);
  assert.doesNotMatch(fitted, /with the cache: n to the power/);
});

test("the report does not claim a difference that was not measured", () => {
  assert.match(words(h(Story, { report: report(0.1, 1.05) })), /Both take the same time here/);
  assert.doesNotMatch(words(h(Story, { report: report(0.1, 10) })), /Both take the same time here/);
});

const spread = (min: number) => ({ median: min, min, max: min });
const bench = (test: string, arithmetic_share: number, memory_share: number) => ({
  test, tokens: 512, tok_s: 100, tok_s_min: 90, tok_s_max: 110, limit_share: 0.5, arithmetic_share, memory_share, ms: 10,
});

function figures(int8Ms: number): Figures {
  return {
    version: "1", geometry: { name: "m", architecture: "llama", layers: 2, heads: 4, kv_heads: 2, head_dim: 8, model_dim: 32, vocabulary: 9, windowed_layers: 0, kv_type: "int8" },
    machine: { backend: "cpu", threads: 1, read_bytes_per_s: 1e9, int8_ops_per_s: 1e9, bf16_ops_per_s: 1e9, f32_ops_per_s: 1e9 },
    bench: [bench("prefill", 0.5, 0.1), bench("decode", 0.1, 0.5)], rows: [bench("prefill", 0.5, 0.1)], depth: 64,
    types: [{ type: "f32", ms: spread(4), bytes_per_token: 400 }, { type: "int8", ms: spread(int8Ms), bytes_per_token: 100 }],
    shapes: [{ name: "as it is", kv_heads: 2, window: 0, ms: spread(1), kv_bytes: 100 }],
    sharing: { shared: 64, own: 16, found: 64, first_ttft_ms: spread(2), second_ttft_ms: spread(1) },
    memory: { machine_bytes: 1, available_bytes: 1, weights_bytes: 1, buffers_bytes: 0, contexts: [64], types: [] }, took_s: 1, time: 1,
  };
}

test("fewer bytes are called less time only where the bars show it", () => {
  const text = (int8Ms: number) => words(h(MachineSteps, { figures: figures(int8Ms), next: () => 1 }));
  assert.match(text(2), /Fewer bytes took less time here\./);
  assert.match(text(6), /Fewer bytes did not take less time here: int8 pages read .* and took 6\.00 ms, f32 pages/);
  assert.doesNotMatch(text(6), /Fewer bytes took less time here/);
});
