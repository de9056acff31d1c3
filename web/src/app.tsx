import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Boundary } from "./boundary";
import { Charts } from "./charts";
import { ChatPanel } from "./chat/chat_panel";
import { abandonChats } from "./chat/chats";
import { ExplainPanel } from "./explain/explain_panel";
import { count, milliseconds, percent } from "./format";
import { keyStore, setKey } from "./key";
import { type Link, type Step, liveStore } from "./live";
import { MapPanel } from "./map_panel";
import { EncoderPanel } from "./models/encoder_panel";
import { RouterModels, SingleModel } from "./models/models_panel";
import { Sequences } from "./sequences";
import { Sessions } from "./sessions/sessions_panel";
import { Steps } from "./steps";
import { storage } from "./storage";
import { useStore } from "./store";
import { ThemeSwitch } from "./theme_switch";
import { Term, type TermName, Tooltip } from "./tooltip";

const kLinks: Record<Link, string> = {
  connecting: "connecting",
  up: "live",
  down: "no connection, retrying",
  locked: "API key required",
  busy: "too many dashboards are open, retrying",
  idle: "the model is not loaded",
  encoder: "ready",
};

const kFolded = "kvik.dashboard.folded";

type Tab = "chat" | "cache" | "explain";

interface Shown {
  tab: Tab;
  onTab: (tab: Tab) => void;
  isFolded: boolean; // whether the dashboard is folded
  onFold: (isFolded: boolean) => void;
}

function Header({ tab, onTab, isFolded, onFold }: Shown) {
  const { link, model, context, backend, encoder } = useStore(liveStore);
  return (
    <header class="top">
      <h1>Kvik</h1>
      {model && <span class="model" title={link === "idle" ? "the chosen model" : "the loaded model"}>{model}{context > 0 && <span class="muted"> · context {count(context)}</span>}</span>}
      {backend.startsWith("cuda/") && <span class="muted" title="GPU support is experimental and has not been measured">{backend}: experimental</span>}
      <span class="spacer" />
      <span class={`link ${link}`} role="status"><i aria-hidden="true" />{kLinks[link]}</span>
      {tab !== "explain" && !encoder && (
        <button type="button" class="fold-switch" aria-pressed={!isFolded} onClick={() => onFold(!isFolded)}>
          {isFolded ? "Show dashboard" : "Hide dashboard"}
        </button>
      )}
      {!encoder && (
        <button type="button" class="explain-switch" aria-pressed={tab === "explain"}
          onClick={() => onTab(tab === "explain" ? "chat" : "explain")}>Explain</button>
      )}
      <ThemeSwitch />
    </header>
  );
}

function KeyDialog() {
  const { isKeyNeeded, wasRefused } = useStore(keyStore);
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  useEffect(() => {
    if (isKeyNeeded) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isKeyNeeded]);
  const submit = (e: Event) => {
    e.preventDefault();
    if (text.trim()) setKey(text.trim());
    setText("");
  };
  return (
    <dialog ref={dialog} aria-labelledby="key-title">
      <form onSubmit={submit}>
        <h2 id="key-title">This server requires an API key</h2>
        <label>
          <span>API key; stored until this tab is closed</span>
          <input type="password" autocomplete="off" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        {wasRefused && <p class="error" role="alert">The server rejected this key.</p>}
        <button type="submit" class="primary">Use it</button>
      </form>
    </dialog>
  );
}

function Tiles() {
  const { history: h, view, steps } = useStore(liveStore);
  const last = (list: (number | null)[]) => list.findLast((v) => v !== null) ?? null;
  const all = view ? view.found_tokens + view.computed_tokens : 0;
  const decodes = steps.filter((s) => s.decodeRows > 0 && s.prefillRows === 0);
  const sum = (of: (step: Step) => number) => decodes.reduce((total, s) => total + of(s), 0);
  const decoded = sum((s) => s.decodeRows - s.drafted + s.accepted);
  const ms = (v: number | null) => (v === null ? "–" : milliseconds(v));
  const tiles: [TermName, string, string][] = [
    ["ttft", "TTFT", ms(last(h.ttftP50))],
    ["itl", "ITL", ms(last(h.itlP50))],
    ["decode", "Decode", decodes.length > 0 ? `${count(Math.round((1000 * decoded) / sum((s) => s.ms)))} tok/s` : "–"],
    ["hitRate", "Prefix cache hits", all > 0 ? percent(view!.found_tokens / all) : "–"],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([term, name, value]) => <div><dt><Term of={term}>{name}</Term></dt><dd>{value}</dd></div>)}
    </dl>
  );
}

// Returns a replacement for a panel that failed to render.
function failed(what: string, place: string): (error: Error) => VNode {
  return (error) => (
    <div class={`${place} failed`}>
      <p class="error" role="alert">The {what} cannot be shown: {error.message}</p>
      <button type="button" onClick={() => location.reload()}>Reload the page</button>
      {place === "chat" && <button type="button" onClick={abandonChats}>Move stored chats aside and reload</button>}
    </div>
  );
}

// Shows chat and cache side by side if there is room, otherwise one of them; or only the explanation.
export function App() {
  const [tab, setTab] = useState<Tab>("chat");
  const [isFolded, setFolded] = useState(storage.get(kFolded) === "yes");
  const fold = (folded: boolean) => {
    storage.set(kFolded, folded ? "yes" : "no");
    setFolded(folded);
  };
  const { link, view, encoder } = useStore(liveStore);
  const header = <Header tab={tab} onTab={setTab} isFolded={isFolded} onFold={fold} />;
  if (encoder) {
    return (
      <div class="app show-encoder">
        {header}
        <main><Boundary fallback={failed("model", "cache")}><EncoderPanel encoder={encoder} /></Boundary></main>
        <KeyDialog />
        <Tooltip />
      </div>
    );
  }
  const isStale = view !== null && link !== "up";
  return (
    <div class={`app show-${tab}${isFolded ? " folded" : ""}`}>
      {header}
      <nav class="tabs" aria-label="Panels">
        <button type="button" aria-pressed={tab === "chat"} onClick={() => setTab("chat")}>Chat</button>
        <button type="button" aria-pressed={tab === "cache"} onClick={() => setTab("cache")}>Dashboard</button>
        <button type="button" aria-pressed={tab === "explain"} onClick={() => setTab("explain")}>Explain</button>
      </nav>
      <main>
        <Boundary fallback={failed("chat", "chat")}><ChatPanel /></Boundary>
        <Boundary of={view} fallback={failed("dashboard", "cache")}>
          <div class={isStale ? "cache stale" : "cache"}>
            {isStale && <p class="stale-note" role="status">State at the time the connection was lost</p>}
            <RouterModels />
            <Tiles />
            <MapPanel />
            <div class="pair"><Sequences /><Steps /></div>
            <Charts />
            <Sessions />
            <SingleModel />
          </div>
        </Boundary>
        {tab === "explain" && <Boundary fallback={failed("explanation", "explain")}><ExplainPanel /></Boundary>}
      </main>
      <KeyDialog />
      <Tooltip />
    </div>
  );
}
