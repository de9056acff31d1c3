// Maps values to pixels and chooses the tick marks of an axis.
export interface Scale {
  at(value: number): number;
  ticks: number[];
}

function niceStep(span: number, n: number): number {
  const raw = span / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5, 10].find((m) => m * power >= raw) ?? 10);
}

export function linear([min, max]: [number, number], [from, to]: [number, number], n: number): Scale {
  const step = niceStep(max - min || 1, n);
  const ticks: number[] = [];
  for (let i = Math.ceil(min / step); i * step <= max + step * 1e-9; ++i) ticks.push(i * step);
  return { at: (v) => from + ((v - min) / (max - min || 1)) * (to - from), ticks };
}

export function logarithmic([min, max]: [number, number], [from, to]: [number, number], base: number): Scale {
  const low = Math.log(min);
  const high = Math.log(max);
  const ticks: number[] = [];
  for (let e = Math.ceil(low / Math.log(base) - 1e-9); e <= high / Math.log(base) + 1e-9; ++e) ticks.push(base ** e);
  return { at: (v) => from + ((Math.log(v) - low) / (high - low || 1)) * (to - from), ticks };
}

// Returns a round number that is at least the value.
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const step = niceStep(value, 4);
  return Math.ceil(value / step - 1e-9) * step;
}
