// The models of a server, from the answer of GET /v1/models.
export type ModelState = "unloaded" | "loading" | "loaded" | "unloading" | "failed";

export interface Model {
  name: string;
  aliases: string[];
  state: ModelState | null; // null: the only model of its server, always loaded
  progress: number; // 0 to 1, while it is being loaded
  memoryBytes: number; // while it is loaded; 0: not known yet
  keptBytes: number; // of KV pages that stay in memory while it is not loaded
  requests: number; // that use it, or wait for it
  crashes: number;
  error: string; // why it could not be loaded, or empty
}

export interface ModelList {
  isRouter: boolean; // whether the server loads and unloads models
  canLoad: boolean; // whether this key may load and unload
  canPull: boolean; // whether this key may download models
  models: Model[];
}

const kStates: readonly unknown[] = ["unloaded", "loading", "loaded", "unloading", "failed"];

type Fields = Record<string, unknown>;

const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});
const number = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const text = (value: unknown): string => (typeof value === "string" ? value : "");

function modelOf(entry: Fields): Model {
  return {
    name: text(entry.id),
    aliases: [],
    state: kStates.includes(entry.state) ? (entry.state as ModelState) : null,
    progress: Math.min(1, Math.max(0, number(entry.progress))),
    memoryBytes: number(entry.memory_bytes),
    keptBytes: number(entry.kept_cache_bytes),
    requests: number(entry.requests),
    crashes: number(entry.crashes),
    error: text(entry.error),
  };
}

// Reads the answer. Entries for further names are joined to their model; adapters are left out.
export function readModelList(answer: unknown): ModelList {
  const list = fieldsOf(answer);
  const entries = (Array.isArray(list.data) ? list.data : []).map(fieldsOf).filter((e) => text(e.id) && !e.parent);
  const models: Model[] = [];
  for (const entry of entries) {
    const model = models.find((m) => m.name === text(entry.display_name));
    if (model) model.aliases.push(text(entry.id));
    else models.push(modelOf(entry));
  }
  return {
    isRouter: models.some((m) => m.state !== null),
    canLoad: list.can_load === true,
    canPull: list.can_pull === true,
    models,
  };
}

const isActive = (model: Model | undefined): boolean => model?.state === "loaded" || model?.state === "loading";

// Returns the model that the chat and the dashboard use: the one that the user chose or, without a choice, one that is
// loaded. `previous` is the last result, which stays while it is loaded.
export function selectModel(models: Model[], chosen: string, previous: string): string {
  const find = (name: string) => models.find((m) => m.name === name);
  if (find(chosen)) return chosen;
  if (isActive(find(previous))) return previous;
  return (models.find(isActive) ?? find(previous) ?? models[0])?.name ?? "";
}

// Returns the stored models that the server does not serve. Names without a tag are listed with ":latest".
export function notServed(stored: string[], served: Model[]): string[] {
  const names = new Set(served.flatMap((m) => [m.name, ...m.aliases]));
  return stored.filter((name) => !names.has(name) && !names.has(name.replace(/:latest$/, "")));
}
