import type { Columns, Fit, Run } from "./report";

// Decides which sentences the measurements support. A sentence that states a rule is shown only if the bars beside it
// show that rule.

const kLeastRSquared = 0.8;

// Returns the fit if a power law explains the times, otherwise null.
export function powerOf(fit: Fit | null | undefined): Fit | null {
  return fit && fit.r_squared >= kLeastRSquared ? fit : null;
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

// Returns the median time per token in the first and in the last quarter of an answer, without its first token.
export function growth(run: Columns): { first: number; last: number } {
  const rest = run.ms.slice(1);
  const n = Math.max(1, rest.length >> 2);
  return { first: median(rest.slice(0, n)), last: median(rest.slice(-n)) };
}

const kAlike = 1.15; // times within this factor are considered equal

export const isSlower = (a: number, b: number) => a > kAlike * b;

export function isFlat(run: Run): boolean {
  const { first, last } = growth(run);
  return !isSlower(last, first) && !isSlower(first, last);
}

export interface Cost {
  name: string;
  bytes: number;
  ms: number;
}

export interface Verdict {
  kind: "confirmed" | "mixed" | "contradicted";
  against?: { fewer: Cost; more: Cost }; // the clearest pair in which fewer bytes took longer
}

// Decides whether fewer bytes took less time. It is "confirmed" if no pair contradicts it and the smallest is faster
// than the largest.
export function fewerBytesVerdict(costs: Cost[]): Verdict {
  let against: Verdict["against"];
  let worst = kAlike;
  for (const fewer of costs) {
    for (const more of costs) {
      const ratio = fewer.ms / more.ms;
      if (fewer.bytes * 1.1 > more.bytes || ratio <= worst) continue;
      worst = ratio;
      against = { fewer, more };
    }
  }
  const bySize = [...costs].sort((a, b) => a.bytes - b.bytes);
  const [least, most] = [bySize[0], bySize.at(-1)];
  const isFaster = Boolean(least && most && isSlower(most.ms, least.ms));
  if (!against) return { kind: isFaster ? "confirmed" : "mixed" };
  return { kind: isFaster ? "mixed" : "contradicted", against };
}
