import { type Histogram, quantileSince } from "./histogram";
import { askForKey, authorization, keyStore } from "./key";
import type { Encoder } from "./models/encoder";
import { liveTarget, showEncoder } from "./models/model_store";
import { Pages } from "./pages";
import { readEvents } from "./sse";
import { createStore } from "./store";

// One event of GET /kvik/live; src/server/operate/live_json.h documents the arrays.
interface View {
  now: number;
  whole: number;
  model?: string;
  context?: number;
  backend?: string;
  waiting: number;
  running: number;
  free: number;
  leased: number;
  sealed: number;
  cached: number;
  page_bytes: number;
  budget_bytes: number;
  step_count: number;
  computed_tokens: number;
  found_tokens: number;
  generated_tokens: number;
  preemptions: number;
  evictions: number;
  windows: number[];
  reserved_bytes: Record<string, number>;
  ttft_s: Histogram;
  itl_s: Histogram;
  tiers: Record<string, Tier>; // the existing ones of disk, shared and redis
  steps: number[];
  sequences: number[];
  pages: number[];
}

export interface Tier {
  degraded: number;
  pages: number;
  bytes: number;
  written_pages: number;
  read_pages: number;
  hit_tokens: number;
  queue_pages: number;
}

export interface Step {
  number: number;
  end: number;
  ms: number;
  plannedMs: number;
  prefillRows: number;
  decodeRows: number;
  sequences: number;
  drafted: number; // draft tokens among the decode rows
  accepted: number; // accepted draft tokens
}

export const enum Phase {
  Prefill = 0,
  Decode = 1,
  Ended = 2,
}

export interface Sequence {
  id: number;
  phase: Phase;
  prompt: number;
  found: number;
  cached: number;
  generated: number;
  maxTokens: number;
  head: number;
  ageMs: number; // time since it was last seen
}

export type Link = "connecting" | "up" | "down" | "locked" | "busy" | "idle" | "encoder";

export interface Live {
  link: Link;
  model: string;
  context: number;
  backend: string; // for example "cpu/avx512"
  encoder: Encoder | null; // the model, if it generates no text; there is no view then
  view: View | null;
  pages: Pages; // modified in place; `version` changes with it
  version: number;
  steps: Step[];
  sequences: Sequence[];
  ended: Sequence[]; // the most recently ended ones, newest first
  history: History;
}

// Values of the charts, once a second. Times are in seconds since the page was opened.
export interface History {
  t: number[];
  ttftP50: (number | null)[];
  ttftP99: (number | null)[];
  itlP50: (number | null)[];
  itlP99: (number | null)[];
  decodeTokS: (number | null)[];
  prefillTokS: (number | null)[];
  hitRate: (number | null)[];
  leased: number[];
  sealed: number[];
  cached: number[];
}

const kSteps = 240;
const kEnded = 4;
const kHistory = 180;
const kEncoderPause = 5000; // milliseconds
const kWindow = 10; // seconds covered by quantiles and the hit rate

// Returns the state before the first view of a model.
function nothing(model: string): Live {
  return {
    link: "connecting",
    model,
    context: 0,
    backend: "",
    encoder: null,
    view: null,
    pages: new Pages(),
    version: 0,
    steps: [],
    sequences: [],
    ended: [],
    history: {
      t: [], ttftP50: [], ttftP99: [], itlP50: [], itlP99: [], decodeTokS: [], prefillTokS: [],
      hitRate: [], leased: [], sealed: [], cached: [],
    },
  };
}

export const liveStore = createStore<Live>(nothing(""));

export function start(): void {
  void stayConnected();
  setInterval(sample, 1000);
}

function patch(change: Partial<Live>): void {
  liveStore.set({ ...liveStore.get(), ...change });
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function keyChange(): Promise<void> {
  return new Promise((resolve) => {
    const { key } = keyStore.get();
    const stop = keyStore.subscribe(() => {
      if (keyStore.get().key === key) return;
      stop();
      resolve();
    });
  });
}

// Waits until another model is selected, or until it is time to look whether the server has another one.
function pauseWith(signal: AbortSignal): Promise<unknown> {
  const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  return Promise.race([aborted, sleep(kEncoderPause)]);
}

async function stayConnected(): Promise<never> {
  let pause = 250;
  let shown = ""; // the model of a router
  const switchTo = (model: string) => {
    if (shown && model !== shown) liveStore.set(nothing(model));
    shown = model;
  };
  for (;;) {
    const target = await liveTarget((model) => {
      switchTo(model);
      patch({ link: "idle", model });
    });
    if (target.model) switchTo(target.model);
    try {
      const response = await fetch(target.path, { headers: authorization(), cache: "no-store", signal: target.signal });
      if (response.status === 401) {
        patch({ link: "locked" });
        askForKey();
        await keyChange();
        continue;
      }
      const encoder = response.status === 400 ? await showEncoder(target.model) : null;
      if (encoder) {
        liveStore.set({ ...nothing(encoder.name), link: "encoder", encoder });
        await pauseWith(target.signal);
        continue;
      }
      if (response.ok && response.body) {
        pause = 250;
        for await (const event of readEvents(response.body)) {
          if (event.name === "end") break;
          show(JSON.parse(event.data) as View);
        }
      }
      patch({ link: response.status === 429 ? "busy" : "down" });
    } catch {
      if (target.signal.aborted) continue;
      patch({ link: "down" });
    }
    await sleep(pause);
    pause = Math.min(2 * pause, 4000);
  }
}

function show(view: View): void {
  const live = liveStore.get();
  const at = performance.now();
  live.pages.groups = view.windows.length;
  if (view.whole) {
    const n = view.free + view.leased + view.sealed + view.cached;
    const isFirst = live.view === null || view.step_count < live.view.step_count || live.pages.n !== n;
    live.pages.resize(n);
    live.pages.apply(view.pages, -1e9); // these are not shown as new changes
    if (isFirst) samples.splice(0, samples.length, { at: at / 1000, view });
  } else {
    live.pages.apply(view.pages, at);
  }
  patch({
    link: "up",
    model: view.model ?? live.model,
    context: view.context ?? live.context,
    backend: view.backend ?? live.backend,
    encoder: null,
    view,
    version: live.version + 1,
    steps: newSteps(view.whole ? [] : live.steps, view.steps),
    ...followed(readSequences(view.sequences), live.ended),
  });
}

function newSteps(known: Step[], list: number[]): Step[] {
  const steps = known.slice();
  for (let i = 0; i + 9 <= list.length; i += 9) {
    const [number, end, ms, plannedMs, prefillRows, decodeRows, sequences, drafted, accepted] = list.slice(i, i + 9) as
      [number, number, number, number, number, number, number, number, number];
    steps.push({ number, end, ms, plannedMs, prefillRows, decodeRows, sequences, drafted, accepted });
  }
  return steps.slice(-kSteps);
}

function followed(list: Sequence[], ended: Sequence[]): Pick<Live, "sequences" | "ended"> {
  const over = list.filter((s) => s.phase === Phase.Ended).reverse();
  return {
    sequences: list.filter((s) => s.phase !== Phase.Ended),
    ended: over.length > 0 ? [...over, ...ended].slice(0, kEnded) : ended,
  };
}

function readSequences(list: number[]): Sequence[] {
  const sequences: Sequence[] = [];
  for (let i = 0; i + 9 <= list.length; i += 9) {
    const [id, phase, prompt, found, cached, generated, maxTokens, head, ageMs] = list.slice(i, i + 9) as
      [number, number, number, number, number, number, number, number, number];
    sequences.push({ id, phase, ageMs, prompt, found, cached, generated, maxTokens, head });
  }
  return sequences;
}

// The views of the last seconds, one per second.
const samples: { at: number; view: View }[] = [];

function sample(): void {
  const { view, history, link } = liveStore.get();
  if (!view || link !== "up") return;
  const at = performance.now() / 1000;
  const before = samples.at(-1);
  const past = samples.find((s) => at - s.at <= kWindow + 0.5)?.view ?? null;
  samples.push({ at, view });
  while (samples.length > 0 && at - samples[0]!.at > kWindow + 1) samples.shift();
  const rate = (key: "generated_tokens" | "computed_tokens") =>
    before ? Math.max(0, (view[key] - before.view[key]) / (at - before.at)) : null;
  const found = view.found_tokens - (past?.found_tokens ?? view.found_tokens);
  const computed = view.computed_tokens - (past?.computed_tokens ?? view.computed_tokens);
  const inMs = (seconds: number | null) => (seconds === null ? null : 1000 * seconds);
  const push = <T>(list: T[], value: T) => [...list.slice(-kHistory + 1), value];
  patch({
    history: {
      t: push(history.t, at),
      ttftP50: push(history.ttftP50, past && inMs(quantileSince(past.ttft_s, view.ttft_s, 0.5))),
      ttftP99: push(history.ttftP99, past && inMs(quantileSince(past.ttft_s, view.ttft_s, 0.99))),
      itlP50: push(history.itlP50, past && inMs(quantileSince(past.itl_s, view.itl_s, 0.5))),
      itlP99: push(history.itlP99, past && inMs(quantileSince(past.itl_s, view.itl_s, 0.99))),
      decodeTokS: push(history.decodeTokS, rate("generated_tokens")),
      prefillTokS: push(history.prefillTokS, rate("computed_tokens")),
      hitRate: push(history.hitRate, found + computed > 0 ? (100 * found) / (found + computed) : null),
      leased: push(history.leased, view.leased * view.page_bytes),
      sealed: push(history.sealed, view.sealed * view.page_bytes),
      cached: push(history.cached, view.cached * view.page_bytes),
    },
  });
}
