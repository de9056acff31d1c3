import { useEffect, useState } from "preact/hooks";
import { bytes, percent } from "../format";
import { useStore } from "../store";
import { type Model, notServed } from "./model_list";
import { type Pull, listStored, pullModel, pullStore, stopPull } from "./pull";

function PullState({ pull }: { pull: Pull }) {
  const { model, isRunning, status, total, completed, error } = pull;
  if (error) return <p class="error pull-state" role="alert">{model}: {error}</p>;
  if (!isRunning) return <p class="pull-state" role="status">{model} is stored on the server's machine.</p>;
  const share = total > 0 ? Math.min(1, completed / total) : 0;
  return (
    <div class="pull-state">
      <span role="status">{model}: {status || "waiting"}</span>
      {total > 0 && <span class="muted"> {bytes(completed)} of {bytes(total)}</span>}
      <div class="model-bar" role="progressbar" aria-label={`Download of ${model}`} aria-valuemin={0} aria-valuemax={100}
        aria-valuenow={Math.floor(100 * share)} aria-valuetext={total > 0 ? percent(share) : status}>
        <span class="done" style={{ width: `${100 * share}%` }} />
      </div>
    </div>
  );
}

// Downloads a model to the server's machine.
export function PullForm({ served }: { served: Model[] }) {
  const { pull, stored } = useStore(pullStore);
  const [name, setName] = useState("");
  useEffect(() => void listStored(), []);
  const isRunning = pull?.isRunning ?? false;
  const others = notServed(stored, served);
  const submit = (e: Event) => {
    e.preventDefault();
    if (!name.trim() || isRunning) return;
    void pullModel(name.trim());
    setName("");
  };
  return (
    <form class="pull" onSubmit={submit}>
      <label>
        <span>Download a model, for example hf.co/ORG/REPO:Q4_K_M</span>
        <input value={name} disabled={isRunning} autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} />
      </label>
      {isRunning
        ? <button type="button" class="stop" onClick={stopPull}>Stop</button>
        : <button type="submit" disabled={!name.trim()}>Download</button>}
      {pull && <PullState pull={pull} />}
      {others.length > 0 && <p class="muted pull-state">Stored, and served after a restart that names them: {others.join(", ")}</p>}
    </form>
  );
}
