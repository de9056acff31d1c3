// Searches whose total time is linear in the text if the requested positions increase.

export class TextSearch {
  private readonly found = new Map<string, number>();

  constructor(private readonly text: string) {}

  // Returns the first position of `needle` at `from` or later, or Infinity.
  next(needle: string, from: number): number {
    const known = this.found.get(needle) ?? -1;
    if (known >= from) return known;
    const at = this.text.indexOf(needle, from);
    const place = at < 0 ? Infinity : at;
    this.found.set(needle, place);
    return place;
  }
}

// Finds the run of exactly `length` backticks at `from` or later, or returns -1.
export function codeSpanEnds(text: string): (length: number, from: number) => number {
  const places = new Map<number, { list: number[]; next: number }>();
  for (const match of text.matchAll(/`+/g)) {
    const length = match[0].length;
    const known = places.get(length);
    if (known) known.list.push(match.index);
    else places.set(length, { list: [match.index], next: 0 });
  }
  return (length, from) => {
    const known = places.get(length);
    if (!known) return -1;
    while (known.next < known.list.length && known.list[known.next]! < from) known.next += 1;
    return known.list[known.next] ?? -1;
  };
}
