// A histogram as sent by the server: bounds grow by √2, beginning with `first`.
export interface Histogram {
  first: number;
  count: number;
  sum: number;
  buckets: number[]; // bucket, count, bucket, count …
}

export function bound(first: number, bucket: number): number {
  return first * Math.SQRT2 ** bucket;
}

// Returns the quantile `share` of the values recorded between the two histograms, or null if there are none.
export function quantileSince(older: Histogram | null, newer: Histogram, share: number): number | null {
  const counts = new Map<number, number>();
  for (let i = 0; i + 1 < newer.buckets.length; i += 2) counts.set(newer.buckets[i]!, newer.buckets[i + 1]!);
  if (older) {
    for (let i = 0; i + 1 < older.buckets.length; i += 2) {
      const bucket = older.buckets[i]!;
      counts.set(bucket, (counts.get(bucket) ?? 0) - older.buckets[i + 1]!);
    }
  }
  const n = newer.count - (older?.count ?? 0);
  if (n <= 0) return null;
  let below = 0;
  for (const bucket of [...counts.keys()].sort((a, b) => a - b)) {
    const here = counts.get(bucket)!;
    if (here > 0 && below + here >= share * n) {
      const from = bucket === 0 ? 0 : bound(newer.first, bucket - 1);
      return from + ((bound(newer.first, bucket) - from) * (share * n - below)) / here;
    }
    below += here;
  }
  return null;
}
