import type { Layout } from "./map_layout";
import { type Pages, State } from "./pages";
import { color } from "./theme";

export interface Selection {
  page: number;
  ancestors: number[];
  descendants: number[];
}

export interface Palette {
  states: [string, string, string, string];
  snapshot: string;
  shared: string;
  line: string;
  disk: string;
  flash: string;
}

export const kFlashMs = 500;
const kFewLines = 24;

export function palette(): Palette {
  return {
    states: [color("free"), color("leased"), color("sealed"), color("cached")],
    snapshot: color("snapshot"),
    shared: color("shared"),
    line: color("text"),
    disk: color("disk"),
    flash: color("text"),
  };
}

const place = (layout: Layout, page: number): [number, number] => [
  (page % layout.columns) * layout.cell,
  Math.floor(page / layout.columns) * layout.cell,
];

export function drawMap(
  context: CanvasRenderingContext2D, pages: Pages, layout: Layout, colors: Palette,
  { selection, now }: { selection: Selection | null; now: number },
): void {
  const gap = layout.cell >= 8 ? 2 : layout.cell >= 5 ? 1 : 0.5;
  const size = layout.cell - gap;
  const family = selection && new Set([selection.page, ...selection.ancestors, ...selection.descendants]);
  for (let page = 0; page < layout.shown; ++page) {
    const [x, y] = place(layout, page);
    const state = pages.state[page]!;
    context.globalAlpha = family && state !== State.Free && !family.has(page) ? 0.35 : 1;
    context.fillStyle = pages.isSnapshot(page) ? colors.snapshot : colors.states[state]!;
    context.fillRect(x, y, size, size);
    if (state === State.Free) continue;
    drawMarks(context, pages, page, { x, y, size }, colors);
    const age = now - pages.changed[page]!;
    if (age < kFlashMs) {
      context.globalAlpha = 0.3 * (1 - age / kFlashMs);
      context.fillStyle = colors.flash;
      context.fillRect(x, y, size, size);
    }
  }
  context.globalAlpha = 1;
  if (selection) drawDescent(context, pages, layout, colors, selection);
}

// Draws an inner square that grows with the number of sequences sharing the page, and a bar at the bottom for a copy
// on disk.
function drawMarks(
  context: CanvasRenderingContext2D, pages: Pages, page: number,
  { x, y, size }: { x: number; y: number; size: number }, colors: Palette,
): void {
  const sharing = pages.sharing(page);
  if (sharing > 1) {
    const share = size < 6 ? 1 : Math.min(0.86, 0.36 + 0.1 * Math.log2(sharing) * 1.6);
    const inner = Math.max(2, Math.round(size * share));
    const offset = (size - inner) / 2;
    context.fillStyle = colors.shared;
    context.fillRect(x + offset, y + offset, inner, inner);
  }
  if (pages.tier[page]! > 0 && size >= 6) {
    context.fillStyle = colors.disk;
    context.fillRect(x, y + size - 2, size, 2);
  }
}

// Draws lines from the first page of the text to the selected page, and on to all continuations.
function drawDescent(
  context: CanvasRenderingContext2D, pages: Pages, layout: Layout, colors: Palette, selection: Selection,
): void {
  const center = (page: number): [number, number] => {
    const [x, y] = place(layout, page);
    return [x + layout.cell / 2 - 1, y + layout.cell / 2 - 1];
  };
  context.strokeStyle = colors.line;
  context.globalAlpha = 0.8;
  context.lineJoin = "round";
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(...center(selection.page));
  for (const page of selection.ancestors) context.lineTo(...center(page));
  context.stroke();
  context.lineWidth = 1;
  context.globalAlpha = 0.6;
  context.setLineDash([3, 2]);
  context.beginPath();
  // If there are many continuations, only the path to the selected page is drawn.
  const few = selection.descendants.length <= kFewLines ? selection.descendants : [];
  for (const page of few) {
    const parent = pages.parentOf(page);
    if (parent < 0) continue;
    context.moveTo(...center(parent));
    context.lineTo(...center(page));
  }
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
  const [x, y] = place(layout, selection.page);
  context.lineWidth = 2;
  context.strokeRect(x - 1, y - 1, layout.cell, layout.cell);
}
