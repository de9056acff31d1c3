import type { Columns, Fit, Run } from "./report";

// Decides which sentences the measured numbers support. A sentence that teaches a rule is written only where the bars
// beside it show that rule.

const kLeastRSquared = 0.8;

// The fit, where a power law explains the times.
export function powerOf(fit: Fit | null | undefined): Fit | null {
  return fit && fit.r_squared >= kLeastRSquared ? fit : null;
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

// The median time of a token in the first and in the last quarter of an answer, its first token apart.
export function growth(run: Columns): { first: number; last: number } {
  const rest = run.ms.slice(1);
  const n = Math.max(1, rest.length >> 2);
  return { first: median(rest.slice(0, n)), last: median(rest.slice(-n)) };
}

const kAlike = 1.15; // times within this factor of each other are not told apart

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
  against?: { fewer: Cost; more: Cost }; // the clearest pair that took longer with fewer bytes
}

// Decides whether fewer bytes took less time. "confirmed": no pair says the contrary, and the smallest is faster than the
// largest.
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
