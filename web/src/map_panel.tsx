import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { prefersReducedMotion, prepared, useWidth } from "./canvas";
import { bytes, count } from "./format";
import { type Live, liveStore } from "./live";
import { type Selection, drawMap, kFlashMs, palette } from "./map_draw";
import { type Layout, layoutFor } from "./map_layout";
import { PageDetail } from "./page_detail";
import { type Pages, State } from "./pages";
import { useStore } from "./store";
import { themeStore } from "./theme";
import { Term } from "./tooltip";

const kTiers: Record<string, [string, string]> = {
  disk: ["on disk", "Pages in the disk tier."],
  shared: ["in the shared folder", "Pages in the shared folder, of all servers that use it."],
  redis: ["in Redis", "Keys in Redis: two for each page, plus those of other programs."],
};

const kMaxHeight = 290;

function selectionOf(pages: Pages, page: number | null): Selection | null {
  if (page === null || page >= pages.used || pages.state[page] === State.Free) return null;
  return { page, ancestors: pages.ancestors(page), descendants: pages.descendants(page) };
}

function Legend({ live }: { live: Live }) {
  const view = live.view!;
  const shared = useMemo(() => {
    let n = 0;
    for (let i = 0; i < live.pages.used; ++i) {
      if (live.pages.state[i] === State.Free) continue;
      if (live.pages.sharing(i) > 1) n += 1;
    }
    return n;
  }, [live.version]);
  const snapshots = useMemo(() => {
    let n = 0;
    for (let i = 0; i < live.pages.used; ++i) n += live.pages.isSnapshot(i) ? 1 : 0;
    return n;
  }, [live.version]);
  const entries: [string, string, number, string][] = [
    ["leased", "being filled", view.leased, "Leased pages: one sequence is writing into each."],
    ["sealed", "in use", view.sealed, "Sealed pages: full, in the prefix index, and in use by running sequences."],
    ["cached", "cached", view.cached, "Cached pages: not in use. A prompt that begins with their tokens reuses them; the least recently used are evicted if memory is short."],
    ["free", "free", view.free, "Free pages."],
    ...(view.reserved_bytes["states"] || view.reserved_bytes["open_pages"]
      ? [["snapshot", "snapshots", snapshots, "Snapshots: recurrent states or open pages, from which other prompts can continue."] as [string, string, number, string]] : []),
    ["shared", "shared", shared, "Shared pages: used by several sequences, or continued by several texts."],
  ];
  for (const [name, tier] of Object.entries(view.tiers)) {
    const [label, title] = kTiers[name] ?? [name, "Pages in this tier."];
    entries.push([name === "shared" ? "shared-folder" : name, label, tier.pages, title]);
  }
  return (
    <ul class="legend" aria-label="Pages by state">
      {entries.map(([kind, label, n, title]) => (
        <li>
          <i class={`swatch ${kind}`} /><Term of={{ text: title }}>{label}</Term> <b data-count={kind}>{count(n)}</b>
        </li>
      ))}
    </ul>
  );
}

// The canvas of the map. Arrow keys select its cells.
function MapCanvas(props: {
  live: Live; layout: Layout; width: number; selection: Selection | null; onSelect: (page: number | null) => void;
}) {
  const { live, layout, width, selection, onSelect } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const { theme } = useStore(themeStore);
  const colors = useMemo(palette, [theme]);
  useEffect(() => {
    let frame = 0;
    const end = performance.now() + (prefersReducedMotion() ? 0 : kFlashMs);
    const draw = () => {
      const now = prefersReducedMotion() ? Infinity : performance.now();
      const context = prepared(canvas.current!, width, layout.rows * layout.cell);
      drawMap(context, live.pages, layout, colors, { selection, now });
      if (performance.now() < end) frame = requestAnimationFrame(draw);
    };
    frame = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(frame);
  }, [live.version, layout, width, selection, colors]);

  const onClick = (e: MouseEvent) => {
    const column = Math.floor(e.offsetX / layout.cell);
    const page = Math.floor(e.offsetY / layout.cell) * layout.columns + column;
    const isPage = column < layout.columns && page < live.pages.used && live.pages.state[page] !== State.Free;
    onSelect(isPage && page !== selection?.page ? page : null);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns,
    };
    if (e.key === "Escape") return onSelect(null);
    const step = steps[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const from = selection?.page ?? -1;
    for (let page = Math.max(0, from + step); page >= 0 && page < live.pages.used; page += step < 0 ? -1 : 1) {
      if (live.pages.state[page] !== State.Free) return onSelect(page);
    }
  };
  return (
    <canvas ref={canvas} class="map-canvas" tabIndex={0} role="application" onClick={onClick} onKeyDown={onKeyDown}
      aria-label="Map of the KV pages. Arrow keys select a page; Escape clears the selection." aria-describedby="page-detail" />
  );
}

export function MapPanel() {
  const live = useStore(liveStore);
  const [page, setPage] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const { pages, view } = live;
  const selection = useMemo(() => selectionOf(pages, page), [page, live.version]);
  const layout = useMemo(() => layoutFor(Math.max(width, 60), kMaxHeight, pages.used, pages.n),
    [width, pages.used, pages.n]);
  const hidden = pages.n - layout.shown;
  return (
    <section class="card map" aria-labelledby="map-title">
      <div class="card-head">
        <h2 id="map-title"><Term of="page">KV pages</Term></h2>
        {view && <span class="muted">{bytes(pages.n * view.page_bytes)} in {count(pages.n)} pages of 32 tokens, {bytes(view.page_bytes)} each</span>}
      </div>
      {view && <Legend live={live} />}
      <div ref={box} class="map-box">
        {view && width > 0 && <MapCanvas {...{ live, layout, width, selection }} onSelect={setPage} />}
      </div>
      {hidden > 0 && <p class="muted small">and {count(hidden)} more that were never used</p>}
      <PageDetail live={live} selection={selection} />
    </section>
  );
}
