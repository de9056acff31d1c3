import { Descent } from "./descent";
import { duration, plural } from "./format";
import type { Live } from "./live";
import type { Selection } from "./map_draw";
import { State, kPageTokens } from "./pages";

const kStates = ["free", "being filled", "in use", "cached"];

function tierText(tier: number): string {
  if (tier & 2) return "memory, brought back from disk";
  return tier & 1 ? "memory, and saved on disk" : "memory";
}

export function PageDetail({ live, selection }: { live: Live; selection: Selection | null }) {
  if (!selection || !live.view) {
    return (
      <p id="page-detail" class="detail muted small" role="status">
        Select a page to see the pages before and after it in its texts.
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
    ["Continues in", plural(Math.max(0, pages.branches[page]!), "text")],
    ["Pages before it", plural(ancestors.length, "page")],
    ["Pages after it", plural(descendants.length, "page")],
    ["Age", duration(view.now - pages.taken[page]!)],
    ["Last used", `${duration(view.now - pages.lastUsed[page]!)} ago`],
    ["Lives in", tierText(pages.tier[page]!)],
  ];
  if (pages.isSnapshot(page)) {
    facts.push(["Holds", "a part of a snapshot: the recurrent state after its text, or its last page in bf16"]);
  } else if (view.windows.length > 1) {
    facts.push(["Layers", `group ${pages.group[page]}, ${window ? `window of ${window}` : "sees everything"}`]);
  }
  return (
    <div id="page-detail" class="detail" role="status">
      <h3>Page {page}</h3>
      <dl>{facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <Descent pages={pages} selected={page} />
    </div>
  );
}
