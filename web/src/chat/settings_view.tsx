import { count } from "../format";
import { Term, type TermName } from "../tooltip";
import { type Settings, changeSettings, readTools } from "./chats";

function NumberField(props: {
  label: string; term: TermName; value: number; min: number; max: number; step: number; onChange: (value: number) => void;
}) {
  const { label, term, value, min, max, step, onChange } = props;
  const take = (text: string) => {
    const number = Number.parseFloat(text);
    if (Number.isFinite(number)) onChange(Math.min(max, Math.max(min, number)));
  };
  return (
    <div class="field">
      <span><Term of={term}>{label}</Term></span>
      <input type="number" aria-label={label} value={value} min={min} max={max} step={step}
        onChange={(e) => take(e.currentTarget.value)} />
    </div>
  );
}

// The tools that a model may call, in the form of requests; results are typed by the user.
function ToolsField({ text }: { text: string }) {
  let error = "";
  try {
    readTools(text);
  } catch (e) {
    error = (e as Error).message;
  }
  return (
    <label class="wide">
      <span>Tools that the model may call, as a JSON list in the request format. You enter the results.</span>
      <textarea rows={2} value={text} spellcheck={false} aria-invalid={error !== ""} aria-label="Tools"
        placeholder='[{"type": "function", "function": {"name": "read_file", "parameters": {…}}}]'
        onInput={(e) => changeSettings({ tools: e.currentTarget.value })} />
      {error && <p class="error" role="alert">{error}</p>}
    </label>
  );
}

// The settings of all chats. When closed, it shows the values that affect every answer.
export function SettingsView({ settings }: { settings: Settings }) {
  const system = settings.system.trim();
  return (
    <details class="settings">
      <summary>
        <span>System prompt and sampling</span>
        <span class="values">
          <span class="system-shown">{system ? `“${system}”` : "no system prompt"}</span>
          <span>max {count(settings.maxTokens)} tokens</span>
          <span>temperature {settings.temperature}</span>
        </span>
      </summary>
      <label class="wide">
        <span>System prompt of every chat</span>
        <textarea rows={3} value={settings.system} onInput={(e) => changeSettings({ system: e.currentTarget.value })} />
      </label>
      <div class="fields">
        <NumberField label="Temperature" term="temperature" value={settings.temperature} min={0} max={2} step={0.1}
          onChange={(temperature) => changeSettings({ temperature })} />
        <NumberField label="Top p" term="topP" value={settings.topP} min={0.01} max={1} step={0.05}
          onChange={(topP) => changeSettings({ topP })} />
        <NumberField label="Max tokens" term="maxTokens" value={settings.maxTokens} min={1} max={1_000_000} step={1}
          onChange={(maxTokens) => changeSettings({ maxTokens: Math.round(maxTokens) })} />
        <div class="field">
          <span><Term of="seed">Seed</Term></span>
          <input inputMode="numeric" aria-label="Seed" placeholder="random" value={settings.seed}
            onInput={(e) => changeSettings({ seed: e.currentTarget.value.replace(/\D/g, "") })} />
        </div>
      </div>
      <ToolsField text={settings.tools} />
    </details>
  );
}
