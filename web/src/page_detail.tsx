import { Descent } from "./descent";
import { duration, plural } from "./format";
import type { Live } from "./live";
import type { Selection } from "./map_draw";
import { State, kPageTokens } from "./pages";

const kStates = ["free", "being filled", "in use", "cached"];

function tierText(tier: number): string {
  if (tier & 2) return "memory, read from a tier";
  return tier & 1 ? "memory, and saved to a tier" : "memory";
}

export function PageDetail({ live, selection }: { live: Live; selection: Selection | null }) {
  if (!selection || !live.view) {
    return (
      <p id="page-detail" class="detail muted small" role="status">
        Select a page to see the pages before and after it.
      </p>
    );
  }
  const { pages, view } = live;
  const { page, ancestors, descendants } = selection;
  const first = pages.depth[page]! * kPageTokens;
  const nTokens = pages.state[page] === State.Leased ? kPageTokens : pages.tokens[page]!;
  const window = view.windows[pages.group[page]!] ?? 0;
  const users = live.sequences.filter((s) => s.head === page || pages.ancestors(s.head).includes(page));
  const facts: [string, string][] = [
    ["State", kStates[pages.state[page]!]!],
    ["Tokens", nTokens > 0 ? `${first + 1}–${first + nTokens} of its text` : "none yet"],
    ["Owners", users.length > 0 ? `${pages.owners[page]} (${users.map((s) => `#${s.id}`).join(", ")})` : `${pages.owners[page]}`],
    ["Continued by", plural(Math.max(0, pages.branches[page]!), "text")],
    ["Preceding pages", plural(ancestors.length, "page")],
    ["Following pages", plural(descendants.length, "page")],
    ["Age", duration(view.now - pages.taken[page]!)],
    ["Last used", `${duration(view.now - pages.lastUsed[page]!)} ago`],
    ["Stored in", tierText(pages.tier[page]!)],
  ];
  if (pages.isSnapshot(page)) {
    facts.push(["Contains", "a part of a snapshot: a recurrent state, or an open page in bf16"]);
  } else if (view.windows.length > 1) {
    facts.push(["Layers", `group ${pages.group[page]}, ${window ? `window of ${window}` : "full attention"}`]);
  }
  return (
    <div id="page-detail" class="detail" role="status">
      <h3>Page {page}</h3>
      <dl>{facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <Descent pages={pages} selected={page} />
    </div>
  );
}
