// The pages of the server's cache, as received from its live stream.
export const enum State {
  Free = 0,
  Leased = 1,
  Sealed = 2,
  Cached = 3,
}

export const kPageTokens = 32;
const kFields = 9; // numbers per page, in the order of src/server/operate/live_json.h

export class Pages {
  n = 0;
  groups = 256; // number of layer groups; higher group numbers hold state snapshots
  used = 0; // pages from this index on were never used, as far as is known
  state = new Uint8Array(0);
  group = new Uint8Array(0);
  owners = new Uint16Array(0);
  tokens = new Uint8Array(0);
  parent = new Int32Array(0);
  taken = new Float64Array(0);
  lastUsed = new Float64Array(0);
  tier = new Uint8Array(0);
  changed = new Float64Array(0); // performance.now() of the last change of state or owners

  // For each page: the number of ends of known texts at it or below it, and its depth.
  branches = new Uint16Array(0);
  depth = new Uint16Array(0);

  resize(n: number): void {
    this.n = n;
    this.used = 0;
    this.state = new Uint8Array(n);
    this.group = new Uint8Array(n);
    this.owners = new Uint16Array(n);
    this.tokens = new Uint8Array(n);
    this.parent = new Int32Array(n).fill(-1);
    this.taken = new Float64Array(n);
    this.lastUsed = new Float64Array(n);
    this.tier = new Uint8Array(n);
    this.changed = new Float64Array(n).fill(-1e9);
    this.branches = new Uint16Array(n);
    this.depth = new Uint16Array(n);
  }

  apply(list: number[], at: number): void {
    for (let i = 0; i + kFields <= list.length; i += kFields) {
      const page = list[i]!;
      if (page >= this.n) continue;
      this.state[page] = list[i + 1]!;
      this.group[page] = list[i + 2]!;
      this.owners[page] = list[i + 3]!;
      this.tokens[page] = list[i + 4]!;
      this.parent[page] = list[i + 5]!;
      this.taken[page] = list[i + 6]!;
      this.lastUsed[page] = list[i + 7]!;
      this.tier[page] = list[i + 8]!;
      this.changed[page] = at;
      if (page >= this.used) this.used = page + 1;
    }
    if (list.length > 0) this.count();
  }

  isSnapshot(page: number): boolean {
    return this.state[page] !== State.Free && this.group[page]! >= this.groups;
  }

  // Returns the previous page of the text, or -1. A parent that was taken after its child now belongs to another
  // text.
  parentOf(page: number): number {
    const parent = this.parent[page] ?? -1;
    const holds = parent >= 0 && this.state[parent] !== State.Free && this.taken[parent]! <= this.taken[page]!;
    return holds && this.group[parent] === this.group[page] ? parent : -1;
  }

  ancestors(page: number): number[] {
    const line: number[] = [];
    for (let at = this.parentOf(page); at >= 0 && line.length < this.n; at = this.parentOf(at)) line.push(at);
    return line;
  }

  // Returns the children of a page and of all its descendants, as lists by page.
  childrenOf(page: number): Map<number, number[]> {
    const all = new Map<number, number[]>();
    for (let i = 0; i < this.used; ++i) {
      if (this.state[i] === State.Free) continue;
      const parent = this.parentOf(i);
      if (parent < 0) continue;
      const siblings = all.get(parent);
      if (siblings) siblings.push(i);
      else all.set(parent, [i]);
    }
    const below = new Map<number, number[]>();
    for (const open = [page]; open.length > 0; ) {
      const at = open.pop()!;
      const children = all.get(at);
      if (!children || below.has(at)) continue;
      below.set(at, children);
      open.push(...children);
    }
    return below;
  }

  descendants(page: number): number[] {
    return [...this.childrenOf(page).values()].flat();
  }

  // Returns the number of running sequences that use a page, or of texts that continue after it, whichever is larger.
  sharing(page: number): number {
    return Math.max(this.owners[page]!, this.branches[page]!);
  }

  // Counts from the leaves up, each page after all of its children.
  private count(): void {
    const nChildren = new Uint32Array(this.used);
    this.branches.fill(0);
    for (let i = 0; i < this.used; ++i) {
      if (this.state[i] === State.Free) continue;
      const parent = this.parentOf(i);
      if (parent >= 0) nChildren[parent]! += 1;
    }
    const order: number[] = [];
    for (let i = 0; i < this.used; ++i) if (nChildren[i] === 0 && this.state[i] !== State.Free) order.push(i);
    for (let k = 0; k < order.length; ++k) {
      const page = order[k]!;
      if (this.branches[page] === 0) this.branches[page] = 1;
      const parent = this.parentOf(page);
      if (parent < 0) continue;
      this.branches[parent]! += this.branches[page]!;
      nChildren[parent]! -= 1;
      if (nChildren[parent] === 0) order.push(parent);
    }
    for (let k = order.length - 1; k >= 0; --k) {
      const parent = this.parentOf(order[k]!);
      this.depth[order[k]!] = parent >= 0 ? this.depth[parent]! + 1 : 0;
    }
  }
}
