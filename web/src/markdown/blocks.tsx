import type { ComponentChildren, VNode } from "preact";
import { CodeBlock } from "./code_block";
import { inline } from "./inline";
import { Formula, kMaxFormula } from "./math";

// Renders Markdown as elements, created one by one: no part of a text is ever parsed as HTML. Unknown syntax is shown
// as it is written.
export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{blocks(text.split("\n"), 0)}</div>;
}

// Quotes and lists nested more deeply than this are shown as text. Each level reads its lines once more.
const kMaxDepth = 10;
const kMaxFormulaLines = 100;

const kFence = /^\s*(```+|~~~+)\s*([\w+#.-]*)/;
const kHeading = /^(#{1,6})\s+(.*)$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*))?$/;
const kRule = /^\s*([-*_])(\s*\1){2,}\s*$/;
const kQuote = /^ {0,3}>/;
const kFormula = /^\s*(\$\$|\\\[)/;

export function blocks(lines: string[], depth: number): VNode[] {
  const out: VNode[] = [];
  for (let at = 0; at < lines.length; ) {
    const [block, next] = oneBlock(lines, at, depth);
    if (block) out.push(block);
    at = next;
  }
  return out;
}

// Returns the block that begins at a line, and the number of the line after it.
function oneBlock(lines: string[], at: number, depth: number): [VNode | null, number] {
  const line = lines[at]!;
  if (!line.trim()) return [null, at + 1];
  const fence = kFence.exec(line);
  if (fence) return code(lines, at, fence[1]!, fence[2]!);
  const heading = kHeading.exec(line);
  if (heading) return [headingOf(heading[1]!.length, inline(heading[2]!)), at + 1];
  if (kRule.test(line)) return [<hr />, at + 1];
  const formula = kFormula.exec(line);
  const end = formula ? formulaEnd(lines, at, formula[1]!) : null;
  if (end) return end;
  if (depth < kMaxDepth && kQuote.test(line)) return quote(lines, at, depth);
  if (depth < kMaxDepth && kItem.test(line)) return list(lines, at, depth);
  if (isTable(lines, at)) return table(lines, at);
  return paragraph(lines, at);
}

// Headings are lower in rank than the page's own.
function headingOf(level: number, content: ComponentChildren): VNode {
  return level <= 2 ? <h3>{content}</h3> : level === 3 ? <h4>{content}</h4> : <h5>{content}</h5>;
}

function code(lines: string[], at: number, fence: string, language: string): [VNode, number] {
  let end = at + 1;
  while (end < lines.length && !lines[end]!.trim().startsWith(fence)) end += 1;
  const indent = leading(lines[at]!);
  const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, leading(line)))).join("\n");
  return [<CodeBlock text={text} language={language} isOpen={end === lines.length} />, end + 1];
}

// Returns a formula on its own lines, from $$ to $$ or from \[ to \].
function formulaEnd(lines: string[], at: number, opener: string): [VNode, number] | null {
  const closer = opener === "$$" ? "$$" : "\\]";
  const last = Math.min(lines.length, at + kMaxFormulaLines);
  let nCharacters = 0;
  for (let end = at; end < last && nCharacters <= kMaxFormula; ++end) {
    const line = end === at ? lines[at]!.trim().slice(2) : lines[end]!;
    nCharacters += line.length;
    const place = line.indexOf(closer);
    if (place < 0) continue;
    if (line.slice(place + 2).trim()) return null; // followed by text: part of a paragraph
    const source = lines.slice(at, end + 1).join("\n").trim();
    const tex = source.slice(2, -2).trim();
    return tex ? [<Formula tex={tex} isDisplay source={source} />, end + 1] : null;
  }
  return null;
}

function quote(lines: string[], at: number, depth: number): [VNode, number] {
  let end = at;
  while (end < lines.length && kQuote.test(lines[end]!)) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [<blockquote>{blocks(inner, depth + 1)}</blockquote>, end];
}

function list(lines: string[], at: number, depth: number): [VNode, number] {
  const first = kItem.exec(lines[at]!)!;
  const indent = first[1]!.length;
  const isOrdered = /\d/.test(first[2]!);
  const items: VNode[] = [];
  let end = at;
  while (end < lines.length) {
    const item = kItem.exec(lines[end]!);
    if (!item || item[1]!.length !== indent || /\d/.test(item[2]!) !== isOrdered || kRule.test(lines[end]!)) break;
    const [inner, next] = itemLines(lines, end + 1, indent);
    items.push(<li>{blocks(unindented(item[3] ?? "", inner), depth + 1)}</li>);
    end = afterBlanks(lines, next);
  }
  return [isOrdered ? <ol start={Number.parseInt(first[2]!, 10)}>{items}</ol> : <ul>{items}</ul>, end];
}

// Returns the lines of an item after its first one: those with more indentation, also after a blank line.
function itemLines(lines: string[], from: number, indent: number): [string[], number] {
  let end = from;
  for (;;) {
    while (end < lines.length && lines[end]!.trim() && leading(lines[end]!) > indent) end += 1;
    const next = afterBlanks(lines, end);
    if (next === end || next >= lines.length || leading(lines[next]!) <= indent) return [lines.slice(from, end), end];
    end = next;
  }
}

function afterBlanks(lines: string[], from: number): number {
  let at = from;
  while (at < lines.length && !lines[at]!.trim()) at += 1;
  return at;
}

const leading = (line: string) => line.length - line.trimStart().length;

// Returns an item's text without its indentation; "[ ]" and "[x]" become check boxes.
function unindented(first: string, rest: string[]): string[] {
  let n = Infinity;
  for (const line of rest) if (line.trim()) n = Math.min(n, leading(line));
  const box = /^\[([ xX])\] /.exec(first);
  const text = box ? `${box[1] === " " ? "☐" : "☑"} ${first.slice(4)}` : first;
  return [text, ...rest.map((line) => line.slice(Math.min(n, leading(line))))];
}

const cells = (line: string) =>
  line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function isTable(lines: string[], at: number): boolean {
  const rule = lines[at + 1];
  return lines[at]!.includes("|") && rule !== undefined && rule.includes("-") && rule.includes("|") &&
    cells(rule).every((cell) => /^:?-+:?$/.test(cell));
}

function table(lines: string[], at: number): [VNode, number] {
  const head = cells(lines[at]!);
  const aligns = cells(lines[at + 1]!).map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : undefined);
  let end = at + 2;
  while (end < lines.length && lines[end]!.includes("|")) end += 1;
  const row = (line: string) => cells(line).slice(0, head.length).map((cell, i) => <td class={aligns[i]}>{inline(cell)}</td>);
  const block = (
    <div class="scroll" tabIndex={0} role="group" aria-label="table">
      <table>
        <thead><tr>{head.map((cell, i) => <th class={aligns[i]}>{inline(cell)}</th>)}</tr></thead>
        <tbody>{lines.slice(at + 2, end).map((line) => <tr>{row(line)}</tr>)}</tbody>
      </table>
    </div>
  );
  return [block, end];
}

function paragraph(lines: string[], at: number): [VNode, number] {
  let end = at + 1;
  while (end < lines.length && lines[end]!.trim() && !startsBlock(lines, end)) end += 1;
  return [<p>{inline(lines.slice(at, end).join("\n"))}</p>, end];
}

function startsBlock(lines: string[], at: number): boolean {
  const line = lines[at]!;
  return kFence.test(line) || kHeading.test(line) || kItem.test(line) || kQuote.test(line) || kFormula.test(line) || isTable(lines, at);
}
