import type { ComponentChild } from "preact";

export type Tag = { name: "strong" | "em" | "del" } | { name: "a"; href: string };

// A run of equal delimiters such as "**".
export interface Run {
  char: string;
  left: number; // number of delimiters that are not part of a pair
  canOpen: boolean;
  canClose: boolean;
}

// A piece of the text: the number of elements that end before it, the piece itself, and the elements that begin after
// it.
export interface Token {
  closes: number;
  content: ComponentChild;
  opens: Tag[]; // innermost first
  run?: Run; // instead of content
  plain?: string | undefined; // text of an address, which is not a link inside another link
}

// An entry of the stack: a run or a bracket that may begin an element.
interface Opener {
  token: Token;
  at: number; // index of the token
  run: Run | null; // null for a bracket
  length: number; // original length of the run
  height: number; // the deepest nesting between this opener and the next one
}

const kMaxNesting = 12;

// Pairs delimiters like CommonMark's "process emphasis": a closer is paired with the nearest opener of its kind, and
// all openers between the two are dropped. A failed search is not repeated (`floors`), which keeps the time linear. A
// pair that would nest too deeply is left as text.
export class Delimiters {
  readonly tokens: Token[] = [];
  private readonly stack: Opener[] = [];
  private brackets: number[] = []; // their indices in the stack
  private readonly floors = new Map<string, number>(); // lowest stack index to search, by kind of closer

  addRun(run: Run): void {
    const length = run.left;
    const token: Token = { closes: 0, content: "", opens: [], run };
    this.tokens.push(token);
    if (run.canClose) while (run.left > 0 && this.pair(token, run, length)) { /* the next one */ }
    if (run.canOpen && run.left > 0) this.push(token, run, length);
  }

  openBracket(text: string): void {
    const token: Token = { closes: 0, content: text, opens: [] };
    this.tokens.push(token);
    this.brackets.push(this.stack.length);
    this.push(token, null, 1);
  }

  // Handles "]". Returns true if it ends a link. The text of the link begins at the last bracket.
  closeBracket(href: string | null): boolean {
    const at = this.brackets.pop();
    if (at === undefined || href === null) return false;
    const opener = this.stack[at]!;
    const height = this.heightSince(at);
    this.truncate(at);
    const isLink = height < kMaxNesting;
    this.raise(isLink ? height + 1 : height);
    if (!isLink) return false;
    for (let i = opener.at + 1; i < this.tokens.length; ++i) {
      const token = this.tokens[i]!;
      if (token.plain !== undefined) token.content = token.plain;
    }
    opener.token.content = "";
    opener.token.opens.push({ name: "a", href });
    this.tokens.push({ closes: 1, content: "", opens: [] });
    this.brackets = []; // links are not nested
    return true;
  }

  private push(token: Token, run: Run | null, length: number): void {
    this.stack.push({ token, at: this.tokens.length - 1, run, length, height: 0 });
  }

  // Makes one element that ends with `closer`. Returns false if there is no opener for it.
  private pair(token: Token, closer: Run, length: number): boolean {
    const kind = `${closer.char}${closer.canOpen ? 1 : 0}${length % 3}`;
    const floor = this.floors.get(kind) ?? 0;
    let at = this.stack.length - 1;
    while (at >= floor && !isOpenerOf(this.stack[at]!, closer, length)) at -= 1;
    const height = at < floor ? 0 : this.heightSince(at);
    if (at < floor || height >= kMaxNesting) {
      this.floors.set(kind, this.stack.length);
      return false;
    }
    const opener = this.stack[at]!;
    const run = opener.run!;
    const n = run.left >= 2 && closer.left >= 2 ? 2 : 1;
    opener.token.opens.push({ name: closer.char === "~" ? "del" : n === 2 ? "strong" : "em" });
    token.closes += 1;
    run.left -= n;
    closer.left -= n;
    this.truncate(run.left > 0 ? at + 1 : at);
    this.raise(height + 1);
    return true;
  }

  private heightSince(at: number): number {
    let height = 0;
    for (let i = at; i < this.stack.length; ++i) height = Math.max(height, this.stack[i]!.height);
    return height;
  }

  private raise(height: number): void {
    const top = this.stack.at(-1);
    if (top) top.height = Math.max(top.height, height);
  }

  private truncate(length: number): void {
    this.stack.length = length;
    while (this.brackets.length > 0 && this.brackets.at(-1)! >= length) this.brackets.pop();
    for (const [kind, floor] of this.floors) if (floor > length) this.floors.set(kind, length);
  }
}

function isOpenerOf(opener: Opener, closer: Run, length: number): boolean {
  const { run } = opener;
  if (!run || run.char !== closer.char) return false;
  // CommonMark's "rule of three" for runs that can both open and close.
  const isAmbiguous = run.canClose || closer.canOpen;
  return !(isAmbiguous && (opener.length + length) % 3 === 0 && (opener.length % 3 !== 0 || length % 3 !== 0));
}
