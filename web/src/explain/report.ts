// The output of `kvik explain --json` and POST /kvik/explain; src/server/operate/explain_json.h and
// src/study/explain/explain_report.h write it. The server leaves out fields that only the command measures.
export interface Fit {
  exponent: number;
  exponent_error: number;
  factor: number;
  r_squared: number;
  from: number;
  to: number;
  points: number;
}

export type Way = "cold" | "naive" | "warm";

// One number for each token of the answer.
export interface Columns {
  ms: number[];
  kv_rows: number[];
  kv_bytes: number[];
}

export interface Run extends Columns {
  way: Way;
  cached_tokens: number;
  queue_ms: number;
  n_seen: number[];
  beside: number[];
  fit: Fit | null;
  late_fit: Fit | null;
}

export interface Words {
  tokens: number;
  text: string;
  pieces: string[];
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export interface Bench {
  test: string;
  tokens: number;
  tok_s: number;
  tok_s_min: number;
  tok_s_max: number;
  limit_share: number;
  arithmetic_share: number;
  memory_share: number;
  ms: number;
}

export interface Figures {
  version: string;
  geometry: {
    name: string; architecture: string; layers: number; heads: number; kv_heads: number; head_dim: number;
    model_dim: number; vocabulary: number; windowed_layers: number; kv_type: string;
  };
  machine: {
    backend: string; threads: number; read_bytes_per_s: number; int8_ops_per_s: number; bf16_ops_per_s: number;
    f32_ops_per_s: number;
  };
  bench: Bench[];
  rows: Bench[];
  depth: number;
  types: { type: string; ms: Spread; bytes_per_token: number }[];
  shapes: { name: string; kv_heads: number; window: number; ms: Spread; kv_bytes: number }[];
  sharing: { shared: number; own: number; found: number; first_ttft_ms: Spread; second_ttft_ms: Spread };
  memory: {
    machine_bytes: number; available_bytes: number; weights_bytes: number; buffers_bytes: number; contexts: number[];
    types: { type: string; bytes_per_token: number; bytes: number[]; longest_context: number; users_that_fit: number }[];
  };
  took_s: number;
  time: number;
}

export interface Report extends Partial<Figures> {
  model: string;
  context: number;
  prompt: Words;
  answer: Words;
  runs: Run[];
  repeats?: number; // of all runs; each token has its minimum time
  bits: { compared: number; different: number; equal: boolean };
}

export function runOf(report: Report, way: Way): Run {
  const run = report.runs.find((r) => r.way === way);
  if (!run) throw new Error(`the report has no ${way} run`);
  return run;
}

export function figuresOf(report: Report): Figures | null {
  return report.memory ? (report as Report & Figures) : null;
}

// Returns the median time of all tokens except the first. A mean would be dominated by a single token during which
// another program used the machine.
export function itl(run: Columns): number {
  const rest = run.ms.slice(1).sort((a, b) => a - b);
  return rest[rest.length >> 1] ?? 0;
}

export const kNames: Record<Way, string> = {
  cold: "with the cache",
  naive: "without a cache",
  warm: "repeated prompt",
};
