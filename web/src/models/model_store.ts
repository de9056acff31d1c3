import { askForKey, authorization } from "../key";
import { storage } from "../storage";
import { createStore } from "../store";
import { type Encoder, readEncoder } from "./encoder";
import { type ModelList, readModelList, selectModel } from "./model_list";
import { errorOf, unreachable } from "../server_error";

export interface Models extends ModelList {
  isReachable: boolean; // whether the server answered the last request for the list
  chosen: string; // by the user, or empty
  selected: string; // used by chat and dashboard; empty: not known
  plannedBytes: number; // memory of the only model of a server; 0: not known
  errors: Record<string, string>; // of the last load or unload of each model
}

const kChosen = "kvik.model";
const kPauseMs = 1000;

export const modelStore = createStore<Models>({
  isRouter: false, canLoad: false, canPull: false, models: [],
  isReachable: false, chosen: storage.get(kChosen) ?? "", selected: "", plannedBytes: 0, errors: {},
});

function patch(change: Partial<Models>): void {
  const next = { ...modelStore.get(), ...change };
  modelStore.set({ ...next, selected: selectModel(next.models, next.chosen, next.selected) });
}

// Updates the list of a router once a second while the page is visible. Other servers are asked again when the page
// connects to them.
export function startModels(): void {
  setInterval(() => {
    const { isRouter } = modelStore.get();
    if (isRouter && document.visibilityState === "visible") void refresh();
  }, kPauseMs);
}

async function getJson(path: string): Promise<unknown> {
  const response = await fetch(path, { headers: authorization(), cache: "no-store" });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

// Returns what the server of one model plans to use.
async function plannedBytes(): Promise<number> {
  const { models } = (await getJson("/api/ps")) as { models?: { size?: number }[] };
  return models?.[0]?.size ?? 0;
}

// Returns the properties of the model if it is an encoder, which has no live view. `model`: that of a router, or empty.
export async function showEncoder(model: string): Promise<Encoder | null> {
  const name = model || (modelStore.get().models[0]?.name ?? "");
  return readEncoder(name, await getJson(withModel("/props")));
}

let refreshing: Promise<void> | null = null;

export function refresh(): Promise<void> {
  refreshing ??= update().finally(() => (refreshing = null));
  return refreshing;
}

async function update(): Promise<void> {
  try {
    const list = readModelList(await getJson("/v1/models"));
    patch({ ...list, isReachable: true });
    if (!list.isRouter) patch({ plannedBytes: await plannedBytes() });
  } catch {
    patch({ isReachable: false }); // the live view reports why
  }
}

export function chooseModel(name: string): void {
  storage.set(kChosen, name);
  patch({ chosen: name });
}

// Loads or unloads a model. Loading takes until the model is loaded.
export async function changeModel(action: "load" | "unload", model: string): Promise<void> {
  const setError = (error: string) => patch({ errors: { ...modelStore.get().errors, [model]: error } });
  setError("");
  try {
    const response = await fetch(`/v1/models/${action}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization() },
      body: JSON.stringify({ model }),
    });
    if (response.status === 401) askForKey();
    if (!response.ok) throw await errorOf(response);
  } catch (error) {
    setError(unreachable(error));
  }
  await refresh();
}

// Returns the field of a request's body that names the selected model of a router.
export function modelField(): { model?: string } {
  const { isRouter, selected } = modelStore.get();
  return isRouter && selected ? { model: selected } : {};
}

// Adds the selected model of a router to the path of a request.
export function withModel(path: string): string {
  const { model } = modelField();
  return model ? `${path}?model=${encodeURIComponent(model)}` : path;
}

// Returns the path of the live view, or null if the selected model is not loaded: looking at it must not load it.
function livePath(): string | null {
  const { isReachable, isRouter, models, selected } = modelStore.get();
  if (!isReachable || !isRouter) return "/kvik/live";
  return models.find((m) => m.name === selected)?.state === "loaded" ? withModel("/kvik/live") : null;
}

export interface LiveTarget {
  path: string;
  model: string; // of a router, or empty
  signal: AbortSignal; // aborted when another model was selected, or this one is being unloaded
}

let endTarget: () => void = () => undefined; // ends the observation of the last target

// Waits until there is a model to look at. While the selected one is not loaded, calls `onWait` with its name.
export async function liveTarget(onWait: (model: string) => void): Promise<LiveTarget> {
  endTarget();
  await refresh();
  let waited: string | null = null;
  const path = await new Promise<string>((resolve) => {
    const check = () => {
      const found = livePath();
      const { selected } = modelStore.get();
      if (found !== null) resolve(found);
      else if (selected !== waited) onWait((waited = selected));
      return found !== null;
    };
    if (check()) return;
    const stop = modelStore.subscribe(() => {
      if (check()) stop();
    });
  });
  const aborter = new AbortController();
  endTarget = modelStore.subscribe(() => {
    if (modelStore.get().isReachable && livePath() !== path) aborter.abort();
  });
  return { path, model: modelField().model ?? "", signal: aborter.signal };
}
