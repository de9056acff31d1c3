// The pages of the server's cache, as far as its live stream told.
export const enum State {
  Free = 0,
  Leased = 1,
  Sealed = 2,
  Cached = 3,
}

export const kPageTokens = 32;
const kFields = 9; // numbers for each page, in the order of src/server/live_json.h

export class Pages {
  n = 0;
  groups = 256; // of layers; pages of a group behind them hold snapshots of states
  used = 0; // pages beyond this one were never taken, as far as is known
  state = new Uint8Array(0);
  group = new Uint8Array(0);
  owners = new Uint16Array(0);
  tokens = new Uint8Array(0);
  parent = new Int32Array(0);
  taken = new Float64Array(0);
  lastUsed = new Float64Array(0);
  tier = new Uint8Array(0);
  changed = new Float64Array(0); // performance.now() of the last change of state or owners

  // Of each page: how many ends of known texts lie at it or below it, and how deep it lies.
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

  // The page before this one in its text. One that was taken after its child is another's by now.
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

  // The children of a page and of all below it, each list by page.
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

  // How many use a page, or would find it: those that run now, or texts that go on behind it.
  sharing(page: number): number {
    return Math.max(this.owners[page]!, this.branches[page]!);
  }

  // From the leaves up, each page after all of its children.
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
