import type { ComponentChild, VNode } from "preact";
import { Delimiters, type Run, type Tag, type Token } from "./delimiters";
import { TextSearch, codeSpanEnds } from "./finders";
import { Formula, kMaxFormula } from "./math";

// Renders Markdown inside a paragraph as elements, created one by one: no part of a text is ever parsed as HTML. Text
// that is not Markdown is shown as it is written.
//
// One pass over the text makes tokens, `Delimiters` pairs them, and build() makes the tree with an explicit stack.
// The time is therefore linear in the text and the nesting is bounded for any model output.

// All special characters, and the beginnings of bare addresses.
const kSpecial = /[\\`*_~[\]$<\n]|!\[|https?:\/\//g;
const kEscapable = /[!-/:-@[-`{-~]/;
const kDestination =
  /\(\s{0,8}<?([^()\s<>]{1,2048}(?:\([^()\s<>]{0,256}\)[^()\s<>]{0,256}){0,8})>?(?:\s{1,8}(?:"[^"\n]{0,512}"|'[^'\n]{0,512}'))?\s{0,8}\)/y;
const kAddress = /https?:\/\/[^\s<>"`|\\[\]]{1,2048}/y;
const kBreak = /<br ?\/?>/iy;

export function inline(text: string): ComponentChild[] {
  return build(new Scanner(text).tokens());
}

class Scanner {
  private readonly delimiters = new Delimiters();
  private readonly out: Token[] = this.delimiters.tokens;
  private readonly search: TextSearch;
  private codeEnds: ((length: number, from: number) => number) | null = null;
  private at = 0;

  constructor(private readonly text: string) {
    this.search = new TextSearch(text);
  }

  tokens(): Token[] {
    const { text } = this;
    while (this.at < text.length) {
      kSpecial.lastIndex = this.at;
      const start = kSpecial.exec(text)?.index ?? text.length;
      if (start > this.at) this.add(text.slice(this.at, start));
      this.at = start;
      if (start < text.length) this.special(text[start]!);
    }
    return this.out;
  }

  private add(content: ComponentChild, plain?: string): void {
    this.out.push({ closes: 0, content, opens: [], plain });
  }

  private literal(n: number): void {
    this.add(this.text.slice(this.at, this.at + n));
    this.at += n;
  }

  private special(char: string): void {
    switch (char) {
      case "\n":
        this.at += 1;
        return this.add(<br />);
      case "\\":
        return this.backslash();
      case "`":
        return this.code();
      case "$":
        return this.dollar();
      case "[":
        this.at += 1;
        return this.delimiters.openBracket("[");
      case "!":
        this.at += 2;
        return this.delimiters.openBracket("![");
      case "]":
        return this.closeBracket();
      case "<":
        return this.angle();
      case "h":
        return this.address(this.at);
      default:
        return this.run(char);
    }
  }

  private backslash(): void {
    const { text, at } = this;
    const next = text[at + 1] ?? "";
    if (next === "(" && this.formula(at, 2, "\\)", "inline")) return;
    if (next === "[" && this.formula(at, 2, "\\]", "display")) return;
    if (next === "(" || next === "[" || next === ")" || next === "]" || !kEscapable.test(next)) return this.literal(1);
    this.at += 2;
    this.add(next);
  }

  // Returns true if a formula begins at `at`: an opener of n characters, and a closer within the maximum length.
  private formula(at: number, n: number, closer: string, kind: "inline" | "display"): boolean {
    const end = this.search.next(closer, at + n);
    const tex = end - at > kMaxFormula ? "" : this.text.slice(at + n, end).trim();
    if (!tex) return false;
    this.at = end + closer.length;
    this.add(<Formula tex={tex} isDisplay={kind === "display"} source={this.text.slice(at, this.at)} />);
    return true;
  }

  // Parses $x$ and $$x$$. As in pandoc, a price is not a formula: there must be no blank on the inner side of either
  // sign and no digit or letter on the outer side of both, and a number followed by words does not count.
  private dollar(): void {
    const { text, at } = this;
    if (text[at + 1] === "$") {
      if (!this.formula(at, 2, "$$", "display")) this.literal(2);
      return;
    }
    const end = this.search.next("$", at + 1);
    const isFormula = end < text.length && !/\w/.test(text[at - 1] ?? "") && /\S/.test(text[at + 1] ?? "") &&
      /[^\s\\]/.test(text[end - 1]!) && !/\w/.test(text[end + 1] ?? "");
    if (!isFormula || isPrice(text.slice(at + 1, end)) || !this.formula(at, 1, "$", "inline")) this.literal(1);
  }

  private code(): void {
    const { text, at } = this;
    const n = runLength(text, at);
    this.codeEnds ??= codeSpanEnds(text);
    const end = this.codeEnds(n, at + n);
    if (end < 0) return this.literal(n);
    const inner = text.slice(at + n, end).replaceAll("\n", " ");
    const isPadded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
    this.at = end + n;
    this.add(<code>{isPadded ? inner.slice(1, -1) : inner}</code>);
  }

  private angle(): void {
    kBreak.lastIndex = this.at;
    const lineBreak = kBreak.exec(this.text);
    if (lineBreak) {
      this.at += lineBreak[0].length;
      return this.add(<br />);
    }
    kAddress.lastIndex = this.at + 1;
    const address = kAddress.exec(this.text)?.[0];
    if (!address || this.text[this.at + 1 + address.length] !== ">") return this.literal(1);
    this.at += address.length + 2;
    this.add(link(address, address), address);
  }

  // Parses a bare address; punctuation at its end belongs to the sentence.
  private address(at: number): void {
    kAddress.lastIndex = at;
    const found = kAddress.exec(this.text)?.[0];
    if (!found || /\w/.test(this.text[at - 1] ?? "")) return this.literal(1);
    const address = withoutPunctuation(found);
    this.at += address.length;
    this.add(link(address, address), address);
  }

  private closeBracket(): void {
    kDestination.lastIndex = this.at + 1;
    const found = kDestination.exec(this.text);
    const href = found && safeLink(found[1]!);
    const isLink = this.delimiters.closeBracket(href ?? null);
    if (isLink) this.at += 1 + found![0].length;
    else this.literal(1);
  }

  private run(char: string): void {
    const { text, at } = this;
    const n = runLength(text, at);
    this.at += n;
    const run: Run = { char, left: n, ...flanks(text[at - 1] ?? " ", text[at + n] ?? " ", char) };
    if (char === "~" && n !== 2) this.add("~".repeat(n));
    else this.delimiters.addRun(run);
  }
}

const isPrice = (text: string) => /^[\d.,]+\s/.test(text) && !text.includes("\\") && /[A-Za-z]{2}/.test(text);

function runLength(text: string, at: number): number {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

const kSpace = /\s/;
const kPunctuation = /[\p{P}\p{S}]/u;

// Decides by CommonMark's rules for left- and right-flanking runs whether a run can open and close emphasis.
function flanks(before: string, after: string, char: string): Pick<Run, "canOpen" | "canClose"> {
  const [spaceBefore, spaceAfter] = [kSpace.test(before), kSpace.test(after)];
  const [punctBefore, punctAfter] = [kPunctuation.test(before), kPunctuation.test(after)];
  const left = !spaceAfter && (!punctAfter || spaceBefore || punctBefore);
  const right = !spaceBefore && (!punctBefore || spaceAfter || punctAfter);
  if (char !== "_") return { canOpen: left, canClose: right };
  return { canOpen: left && (!right || punctBefore), canClose: right && (!left || punctAfter) };
}

function withoutPunctuation(address: string): string {
  let end = address.length;
  let open = 0; // parentheses that are balanced within the address are kept
  for (const c of address) open += c === "(" ? 1 : c === ")" ? -1 : 0;
  while (end > 0) {
    const last = address[end - 1]!;
    if (last === ")" && open < 0) open += 1;
    else if (!/[.,;:!?'*_~\]$]/.test(last)) break;
    end -= 1;
  }
  return address.slice(0, end);
}

// Rejects javascript:, data: and links to this server.
function safeLink(link: string): string | null {
  return /^(https?:\/\/|mailto:)/i.test(link) ? link : null;
}

function link(href: string, content: ComponentChild): VNode {
  return <a href={href} target="_blank" rel="noopener noreferrer nofollow">{content}</a>;
}

function element(tag: Tag, children: ComponentChild[]): VNode {
  switch (tag.name) {
    case "strong":
      return <strong>{children}</strong>;
    case "em":
      return <em>{children}</em>;
    case "del":
      return <del>{children}</del>;
    default:
      return link(tag.href, children);
  }
}

function build(tokens: Token[]): ComponentChild[] {
  let children: ComponentChild[] = [];
  const open: { tag: Tag; outer: ComponentChild[] }[] = [];
  for (const token of tokens) {
    for (let i = 0; i < token.closes; ++i) {
      const { tag, outer } = open.pop()!;
      outer.push(element(tag, children));
      children = outer;
    }
    const content = token.run ? token.run.char.repeat(token.run.left) : token.content;
    const last = children.length - 1;
    if (content === "") { /* all delimiters were used */ }
    else if (typeof content === "string" && typeof children[last] === "string") children[last] += content;
    else children.push(content);
    for (let i = token.opens.length - 1; i >= 0; --i) {
      open.push({ tag: token.opens[i]!, outer: children });
      children = [];
    }
  }
  return children;
}
