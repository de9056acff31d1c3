import { askForKey, authorization } from "../key";
import { withModel } from "../models/model_store";
import { errorOf, unreachable } from "../server_error";
import { readEvents } from "../sse";
import { createStore } from "../store";
import type { Columns, Report, Way } from "./report";

export type Progress = Columns & { way: Way };

export interface Explaining {
  isRunning: boolean;
  runs: Progress[]; // possibly incomplete
  repeat: { number: number; of: number } | null; // all variants are repeated to find the minimum times
  report: Report | null;
  error: string | null;
}

export const explainStore = createStore<Explaining>({ isRunning: false, runs: [], repeat: null, report: null, error: null });

let running: AbortController | null = null;

function patch(change: Partial<Explaining>): void {
  explainStore.set({ ...explainStore.get(), ...change });
}

export function stopExplaining(): void {
  running?.abort();
}

function withTokens(runs: Progress[], update: Progress): Progress[] {
  const known = runs.find((run) => run.way === update.way);
  if (!known) return [...runs, update];
  const longer: Progress = {
    way: update.way,
    ms: [...known.ms, ...update.ms],
    kv_rows: [...known.kv_rows, ...update.kv_rows],
    kv_bytes: [...known.kv_bytes, ...update.kv_bytes],
  };
  return runs.map((run) => (run === known ? longer : run));
}

// Runs the explanation on the loaded model with the lowest priority, so that chats come first.
export async function explain(prompt: string, maxTokens: number): Promise<void> {
  if (explainStore.get().isRunning) return;
  running = new AbortController();
  explainStore.set({ isRunning: true, runs: [], repeat: null, report: null, error: null });
  try {
    const response = await fetch(withModel("/kvik/explain"), {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization() },
      body: JSON.stringify({ prompt, max_tokens: maxTokens }),
      signal: running.signal,
    });
    if (!response.ok || !response.body) {
      if (response.status === 401) askForKey();
      throw await errorOf(response);
    }
    for await (const event of readEvents(response.body)) {
      const data = JSON.parse(event.data) as { error?: { message?: string } };
      if (event.name === "tokens") patch({ runs: withTokens(explainStore.get().runs, data as unknown as Progress) });
      else if (event.name === "repeat") patch({ repeat: data as unknown as Explaining["repeat"] });
      else if (event.name === "report") patch({ report: data as unknown as Report });
      else if (data.error) throw new Error(data.error.message ?? "the server could not continue");
    }
    if (!explainStore.get().report) throw new Error("the stream ended before the report did");
  } catch (error) {
    patch({ error: running.signal.aborted ? "stopped" : unreachable(error) });
  }
  running = null;
  patch({ isRunning: false });
}
