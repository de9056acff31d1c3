import type { ComponentChildren, VNode } from "preact";

// Markdown as models write it, made into elements one by one: nothing of a text is ever read as
// HTML. What is not understood stays as it is written.
export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{blocks(text.split("\n"))}</div>;
}

const kFence = /^\s*(```+|~~~+)\s*([\w+#.-]*)/;
const kHeading = /^(#{1,6})\s+(.*)$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kRule = /^\s*([-*_])(\s*\1){2,}\s*$/;
const kTableRule = /^\s*\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?\s*)?$/;

function blocks(lines: string[]): VNode[] {
  const out: VNode[] = [];
  for (let at = 0; at < lines.length; ) {
    const [block, next] = oneBlock(lines, at);
    if (block) out.push(block);
    at = next;
  }
  return out;
}

// The block that begins at a line, and the line behind it.
function oneBlock(lines: string[], at: number): [VNode | null, number] {
  const line = lines[at]!;
  if (!line.trim()) return [null, at + 1];
  const fence = kFence.exec(line);
  if (fence) return code(lines, at, fence[1]!, fence[2]!);
  const heading = kHeading.exec(line);
  if (heading) return [headingOf(heading[1]!.length, inline(heading[2]!)), at + 1];
  if (kRule.test(line)) return [<hr />, at + 1];
  if (line.startsWith(">")) return quote(lines, at);
  if (kItem.test(line)) return list(lines, at);
  if (line.includes("|") && kTableRule.test(lines[at + 1] ?? "")) return table(lines, at);
  return paragraph(lines, at);
}

// The page has headings of its own above these.
function headingOf(level: number, content: ComponentChildren): VNode {
  return level <= 2 ? <h3>{content}</h3> : <h4>{content}</h4>;
}

function code(lines: string[], at: number, fence: string, language: string): [VNode, number] {
  let end = at + 1;
  while (end < lines.length && !lines[end]!.trim().startsWith(fence)) end += 1;
  const block = (
    <pre tabIndex={0} aria-label={language ? `${language} code` : "code"}>
      <code>{lines.slice(at + 1, end).join("\n")}</code>
    </pre>
  );
  return [block, end + 1];
}

function quote(lines: string[], at: number): [VNode, number] {
  let end = at;
  while (end < lines.length && lines[end]!.startsWith(">")) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^>\s?/, ""));
  return [<blockquote>{blocks(inner)}</blockquote>, end];
}

function list(lines: string[], at: number): [VNode, number] {
  const first = kItem.exec(lines[at]!)!;
  const indent = first[1]!.length;
  const isOrdered = /\d/.test(first[2]!);
  const items: VNode[] = [];
  let end = at;
  while (end < lines.length) {
    const item = kItem.exec(lines[end]!);
    if (!item || item[1]!.length !== indent || /\d/.test(item[2]!) !== isOrdered) break;
    const inner: string[] = [];
    end += 1;
    while (end < lines.length && (/^\s+\S/.test(lines[end]!) && leading(lines[end]!) > indent)) {
      inner.push(lines[end]!);
      end += 1;
    }
    items.push(<li>{inline(item[3]!)}{blocks(unindented(inner))}</li>);
  }
  return [isOrdered ? <ol start={Number.parseInt(first[2]!, 10)}>{items}</ol> : <ul>{items}</ul>, end];
}

const leading = (line: string) => line.length - line.trimStart().length;

function unindented(lines: string[]): string[] {
  const n = Math.min(...lines.filter((line) => line.trim()).map(leading));
  return lines.map((line) => line.slice(Number.isFinite(n) ? n : 0));
}

function table(lines: string[], at: number): [VNode, number] {
  const cells = (line: string) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  let end = at + 2;
  while (end < lines.length && lines[end]!.includes("|")) end += 1;
  const block = (
    <div class="scroll" tabIndex={0} role="group" aria-label="table">
      <table>
        <thead><tr>{cells(lines[at]!).map((cell) => <th>{inline(cell)}</th>)}</tr></thead>
        <tbody>
          {lines.slice(at + 2, end).map((line) => <tr>{cells(line).map((cell) => <td>{inline(cell)}</td>)}</tr>)}
        </tbody>
      </table>
    </div>
  );
  return [block, end];
}

function paragraph(lines: string[], at: number): [VNode, number] {
  let end = at + 1;
  while (end < lines.length && lines[end]!.trim() && !startsBlock(lines, end)) end += 1;
  const content: ComponentChildren[] = [];
  lines.slice(at, end).forEach((line, i) => {
    if (i > 0) content.push(<br />);
    content.push(...inline(line));
  });
  return [<p>{content}</p>, end];
}

function startsBlock(lines: string[], at: number): boolean {
  const line = lines[at]!;
  return kFence.test(line) || kHeading.test(line) || kItem.test(line) || line.startsWith(">");
}

// Each of these begins with what stands for it; the first that matches at a place wins.
const kInline =
  /(`+)(.+?)\1|\*\*(\S(?:.*?\S)?)\*\*|__(\S(?:.*?\S)?)__|\*(\S(?:[^*]*?\S)?)\*|(?<!\w)_(\S(?:[^_]*?\S)?)_(?!\w)|~~(.+?)~~|\[([^\]]+)\]\(([^()\s]+)\)/;

function inline(text: string): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let rest = text;
  for (let m = kInline.exec(rest); m; m = kInline.exec(rest)) {
    if (m.index > 0) out.push(rest.slice(0, m.index));
    out.push(span(m));
    rest = rest.slice(m.index + m[0].length);
  }
  if (rest) out.push(rest);
  return out;
}

function span(m: RegExpExecArray): ComponentChildren {
  if (m[2] !== undefined) return <code>{m[2]}</code>;
  const strong = m[3] ?? m[4];
  if (strong !== undefined) return <strong>{inline(strong)}</strong>;
  const emphasis = m[5] ?? m[6];
  if (emphasis !== undefined) return <em>{inline(emphasis)}</em>;
  if (m[7] !== undefined) return <del>{inline(m[7])}</del>;
  const href = safeLink(m[9]!);
  if (!href) return m[0];
  return <a href={href} target="_blank" rel="noopener noreferrer nofollow">{inline(m[8]!)}</a>;
}

// No javascript:, no data:, nothing on this server.
function safeLink(link: string): string | null {
  return /^(https?:\/\/|mailto:)/i.test(link) ? link : null;
}
