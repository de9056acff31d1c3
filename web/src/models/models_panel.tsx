import { bytes, count, percent } from "../format";
import { useStore } from "../store";
import type { Model } from "./model_list";
import { type Models, changeModel, chooseModel, modelStore } from "./model_store";
import "./models.css";
import { PullForm } from "./pull_form";

function Bar({ parts, label }: { parts: [kind: string, share: number][]; label: string }) {
  return (
    <div class="model-bar" role="img" aria-label={label}>
      {parts.map(([kind, share]) => share > 0 && <span class={kind} style={{ width: `${100 * share}%` }} />)}
    </div>
  );
}

function State({ model }: { model: Model }) {
  const { state, progress, crashes } = model;
  const isLoading = state === "loading";
  return (
    <>
      <span class="model-state" data-state={state}>{state}{isLoading && ` ${percent(progress)}`}</span>
      {isLoading && <Bar parts={[["done", progress]]} label={`${percent(progress)} loaded`} />}
      {crashes > 0 && <span class="error"> {count(crashes)} {crashes === 1 ? "crash" : "crashes"}</span>}
    </>
  );
}

// Memory that a model has now: its process, or the KV pages kept of it.
const loadedBytes = (m: Model): number => (m.state === "loaded" || m.state === "loading" || m.state === "unloading" ? m.memoryBytes : 0);

function memoryText(model: Model): string {
  const { memoryBytes, keptBytes } = model;
  const loaded = loadedBytes(model);
  const parts = [
    loaded > 0 ? `${bytes(loaded)} loaded` : "",
    keptBytes > 0 ? `${bytes(keptBytes)} of cache kept` : "",
    loaded === 0 && memoryBytes > 0 ? `needs ${bytes(memoryBytes)}` : "",
  ].filter(Boolean);
  return parts.join(", ") || "–";
}

function Row({ model, state, scale }: { model: Model; state: Models; scale: number }) {
  const { selected, canLoad, errors } = state;
  const { name, aliases, keptBytes } = model;
  const isSelected = name === selected;
  const isActive = model.state === "loaded" || model.state === "loading";
  const action = isActive ? "unload" : "load";
  const error = errors[name] || model.error;
  const text = memoryText(model);
  return (
    <tr class={isSelected ? "selected" : ""} data-model={name}>
      <td>
        <label>
          <input type="radio" name="model" checked={isSelected} onChange={() => chooseModel(name)} />
          <span class="model-name">{name}{aliases.length > 0 && <span class="muted"> {aliases.join(", ")}</span>}</span>
        </label>
        {error && <p class="error" role="alert">{error}</p>}
      </td>
      <td><State model={model} /></td>
      <td>
        <Bar parts={[["loaded", loadedBytes(model) / scale], ["kept", keptBytes / scale]]} label={`Memory of ${name}: ${text}`} />
        <span class="muted">{text}</span>
      </td>
      <td class="number">{count(model.requests)}</td>
      {canLoad && (
        <td>
          <button type="button" aria-label={`${action === "load" ? "Load" : "Unload"} ${name}`} disabled={model.state === "unloading"}
            onClick={() => void changeModel(action, name)}>{action === "load" ? "Load" : "Unload"}</button>
        </td>
      )}
    </tr>
  );
}

function Router({ state }: { state: Models }) {
  const { models, canLoad, canPull } = state;
  const sum = (of: (m: Model) => number) => models.reduce((total, m) => total + of(m), 0);
  const scale = Math.max(1, ...models.map((m) => Math.max(m.memoryBytes, loadedBytes(m) + m.keptBytes)));
  return (
    <section class="card models" aria-labelledby="models-title">
      <div class="card-head">
        <h2 id="models-title">Models</h2>
        <span class="muted">chat and dashboard use the chosen one; a message loads it</span>
      </div>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col">Model</th><th scope="col">State</th><th scope="col">Memory</th><th scope="col" class="number">Requests</th>{canLoad && <td />}</tr></thead>
          <tbody>{models.map((m) => <Row key={m.name} model={m} state={state} scale={scale} />)}</tbody>
        </table>
      </div>
      <ul class="legend" aria-label="Memory of all models">
        <li><i class="swatch sealed" />loaded <b>{bytes(sum(loadedBytes))}</b></li>
        <li><i class="swatch cached" />cache kept of unloaded models <b>{bytes(sum((m) => m.keptBytes))}</b></li>
      </ul>
      {!canLoad && <p class="muted">Models are loaded, unloaded and downloaded with the key of an operator.</p>}
      {canPull && <PullForm served={models} />}
    </section>
  );
}

// Lists the models of a router at the top of the dashboard.
export function RouterModels() {
  const state = useStore(modelStore);
  return state.isRouter ? <Router state={state} /> : null;
}

// Shows the only model of a server, and its planned memory.
export function SingleModel() {
  const { isRouter, models, plannedBytes } = useStore(modelStore);
  const model = models[0];
  if (isRouter || !model) return null;
  return (
    <section class="card models" aria-labelledby="models-title">
      <div class="card-head">
        <h2 id="models-title">Models</h2>
        <span data-model={model.name}>{model.name}{plannedBytes > 0 && <span class="muted"> · planned memory {bytes(plannedBytes)}</span>}</span>
      </div>
    </section>
  );
}
