import { count, plural } from "./format";
import { type Pages, State, kPageTokens } from "./pages";

// Consecutive pages without a fork, drawn as one bar.
interface Run {
  first: number; // first page
  pages: number;
  depth: number; // number of pages before the run
  row: number;
  parentRow: number; // -1 if there is no parent
  texts: number; // number of texts that continue in it
}

const kRows = 10;
const kRow = 17;
const kBar = 9;

interface Tree {
  runs: Run[];
  deepest: number;
  hidden: number; // number of runs for which there is no row
  selectedRow: number;
}

// Returns the tree of texts that contain a page: it begins with the first page of its text and has all continuations.
function treeOf(pages: Pages, selected: number): Tree {
  const root = pages.ancestors(selected).at(-1) ?? selected;
  const children = pages.childrenOf(root);
  const tree: Tree = { runs: [], deepest: 1, hidden: 0, selectedRow: -1 };
  const open = [{ page: root, depth: 0, parentRow: -1 }];
  let rows = 0;
  while (open.length > 0) {
    const { page, depth, parentRow } = open.pop()!;
    if (rows >= kRows) {
      tree.hidden += 1;
      continue;
    }
    let last = page;
    let n = 1;
    let holdsSelected = page === selected;
    for (let next = children.get(last); next?.length === 1; next = children.get(last)) {
      last = next[0]!;
      n += 1;
      holdsSelected ||= last === selected;
    }
    if (holdsSelected) tree.selectedRow = rows;
    tree.runs.push({ first: page, pages: n, depth, row: rows, parentRow, texts: pages.branches[page]! });
    tree.deepest = Math.max(tree.deepest, depth + n);
    const forks = [...(children.get(last) ?? [])].sort((a, b) => pages.branches[a]! - pages.branches[b]!);
    for (const child of forks) open.push({ page: child, depth: depth + n, parentRow: rows });
    rows += 1;
  }
  return tree;
}

function color(pages: Pages, run: Run): string {
  if (run.texts > 1) return "var(--shared)";
  const state = pages.state[run.first];
  return state === State.Cached ? "var(--cached)" : state === State.Sealed ? "var(--sealed)" : "var(--leased)";
}

export function Descent({ pages, selected }: { pages: Pages; selected: number }) {
  const tree = treeOf(pages, selected);
  const width = 600;
  const unit = (width - 4) / tree.deepest;
  const x = (depth: number) => 2 + depth * unit;
  const y = (row: number) => row * kRow + kRow / 2;
  const height = tree.runs.length * kRow;
  const nTexts = tree.runs[0]!.texts;
  return (
    <div class="descent">
      <p class="small">
        <b>Page tree</b>{" "}
        <span class="muted">
          {plural(nTexts, "text")} from one root page, up to {count(tree.deepest * kPageTokens)} tokens
          {tree.hidden > 0 && `; ${count(tree.hidden)} more not drawn`}
        </span>
      </p>
      <svg viewBox={`0 0 ${width} ${height}`} height={height} preserveAspectRatio="none" role="img"
        aria-label={`A tree of ${nTexts} texts with a common prefix`}>
        {tree.runs.map((run) => run.parentRow >= 0 && (
          <path d={`M${x(run.depth)} ${y(run.parentRow)}V${y(run.row)}`} stroke="var(--muted)" fill="none"
            vector-effect="non-scaling-stroke" />
        ))}
        {tree.runs.map((run) => (
          <rect x={x(run.depth)} y={y(run.row) - kBar / 2} width={Math.max(2, run.pages * unit - 2)} height={kBar} rx={2}
            fill={color(pages, run)} />
        ))}
        {tree.selectedRow >= 0 && (
          <rect x={x(pages.depth[selected]!) - 1} y={y(tree.selectedRow) - kBar / 2 - 2} width={Math.max(4, unit)}
            height={kBar + 4} fill="none" stroke="var(--text)" stroke-width={2} vector-effect="non-scaling-stroke" />
        )}
      </svg>
    </div>
  );
}
