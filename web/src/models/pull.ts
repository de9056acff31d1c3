import { askForKey, authorization } from "../key";
import { createStore } from "../store";
import { readLines } from "./json_lines";
import { errorOf, sentenceOf, unreachable } from "../server_error";

export interface Pull {
  model: string;
  isRunning: boolean;
  status: string; // of the server
  total: number; // bytes of the current file; 0: not known
  completed: number;
  error: string;
}

export interface Pulls {
  pull: Pull | null; // the last one
  stored: string[]; // models on the server's machine
}

export const pullStore = createStore<Pulls>({ pull: null, stored: [] });

let running: AbortController | null = null;

function patch(change: Partial<Pull>): void {
  const { pull, stored } = pullStore.get();
  if (pull) pullStore.set({ pull: { ...pull, ...change }, stored });
}

export function stopPull(): void {
  running?.abort();
}

export async function pullModel(model: string): Promise<void> {
  if (pullStore.get().pull?.isRunning) return;
  running = new AbortController();
  const { signal } = running;
  pullStore.set({ ...pullStore.get(), pull: { model, isRunning: true, status: "", total: 0, completed: 0, error: "" } });
  try {
    const response = await fetch("/api/pull", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization() },
      body: JSON.stringify({ model, stream: true }),
      signal,
    });
    if (response.status === 401) askForKey();
    if (!response.ok || !response.body) throw await errorOf(response);
    let last = "";
    for await (const line of readLines(response.body)) {
      const sentence = sentenceOf(line);
      if (sentence !== null) throw new Error(sentence);
      const { status = "", total = 0, completed = 0 } = line as { status?: string; total?: number; completed?: number };
      last = status;
      patch({ status, total, completed });
    }
    if (last !== "success") throw new Error("the stream ended before the download did");
  } catch (error) {
    patch({ error: signal.aborted ? "stopped" : unreachable(error) });
  }
  patch({ isRunning: false });
  await listStored();
}

// Lists the models on the server's machine.
export async function listStored(): Promise<void> {
  try {
    const response = await fetch("/api/tags", { headers: authorization(), cache: "no-store" });
    if (!response.ok) return;
    const { models = [] } = (await response.json()) as { models?: { name?: string }[] };
    pullStore.set({ ...pullStore.get(), stored: models.map((m) => m.name ?? "").filter(Boolean) });
  } catch {
    // The list stays as it was.
  }
}
