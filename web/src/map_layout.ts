// Arranges the cells of a map: as large as fits the height, in rows of the whole width.
export interface Layout {
  cell: number; // pitch in pixels
  columns: number;
  rows: number;
  shown: number; // number of pages
}

const kSizes = [18, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3];
const kFew = 192;

export function layoutFor(width: number, maxHeight: number, used: number, n: number): Layout {
  // Pages that were never used are counted, not drawn: with a large budget they would hide the others.
  const wanted = Math.min(n, Math.max(kFew, Math.ceil(used * 1.15)));
  for (const cell of kSizes) {
    const columns = Math.max(1, Math.floor(width / cell));
    const rows = Math.ceil(wanted / columns);
    if (rows * cell > maxHeight && cell !== kSizes.at(-1)) continue;
    return { cell, columns, rows, shown: Math.min(n, rows * columns) };
  }
  return { cell: 3, columns: 1, rows: wanted, shown: wanted };
}
