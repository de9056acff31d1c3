import { bytes } from "./format";
import { liveStore } from "./live";
import { useStore } from "./store";

// Shows the use of each byte of --kv-memory, from the server's memory accounting: pages by state, and pages being
// moved to or from a slower tier.
export function MemoryKinds() {
  const { view } = useStore(liveStore);
  if (!view) return null;
  const { reserved_bytes: reserved, page_bytes: page } = view;
  const inPages = (view.leased + view.sealed + view.cached + view.free) * page;
  const parts: [string, string, number][] = [
    ["leased", "being filled", view.leased * page],
    ["sealed", "in use", view.sealed * page],
    ["cached", "cached", view.cached * page],
    ["free", "free pages", view.free * page],
    ["shared", "being written to a tier", reserved["tier_writes"] ?? 0],
    ["disk", "being read from a tier", reserved["tier_reads"] ?? 0],
    ["rest", "remainder", Math.max(0, (reserved["pages"] ?? 0) - inPages)],
  ];
  const shown = parts.filter(([kind, , n]) => n > 0 && kind !== "rest");
  return (
    <figure class="chart kinds">
      <figcaption>
        <span class="chart-title">KV memory by kind</span>
        <span class="chart-key">of <b>{bytes(view.budget_bytes)}</b></span>
      </figcaption>
      <div class="kinds-bar" role="img" aria-label={shown.map(([, name, n]) => `${name} ${bytes(n)}`).join(", ")}>
        {parts.map(([kind, , n]) => n > 0 && <span class={`kind-${kind}`} style={{ width: `${(100 * n) / view.budget_bytes}%` }} />)}
      </div>
      <ul class="legend">
        {shown.map(([kind, name, n]) => <li><i class={`swatch ${kind}`} />{name} <b data-kind={kind}>{bytes(n)}</b></li>)}
      </ul>
    </figure>
  );
}
