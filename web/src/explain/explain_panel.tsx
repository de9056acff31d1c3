import { useState } from "preact/hooks";
import { count } from "../format";
import { useStore } from "../store";
import "./explain.css";
import { explain, explainStore, stopExplaining } from "./live_explain";
import { type Way, kNames } from "./report";
import { Story, TokenTimes } from "./story";

const kExample = "To be, or not to be: that is the question.";
const kWays: Way[] = ["cold", "naive", "warm"];
const kMostTokens = 64;

function Announcement() {
  return (
    <section class="card announcement">
      <h2>What this will do</h2>
      <p>
        The loaded model answers your prompt three times, here and now: <b>with the cache</b>, so that keys and values are computed
        once and kept; <b>without it</b>, so that every token computes those of all tokens before it again; and <b>once more</b>,
        with what the first run left in the cache.
      </p>
      <p>
        You will see the milliseconds and the rows of K and V of every token, how both grow with the text, and whether a single
        bit of the answer differs. It takes seconds, and whoever chats meanwhile comes first.
      </p>
    </section>
  );
}

export function ExplainPanel() {
  const { isRunning, runs, report, error } = useStore(explainStore);
  const [prompt, setPrompt] = useState(kExample);
  const [tokens, setTokens] = useState(48);
  const submit = (e: Event) => {
    e.preventDefault();
    if (prompt.trim()) void explain(prompt, tokens);
  };
  const current = runs.at(-1);
  const done = Math.max(0, runs.length - 1) * tokens + (current?.ms.length ?? 0);
  return (
    <div class="explain">
      <div class="explain-inner">
        <form class="card explain-form" onSubmit={submit}>
          <label>
            A prompt, answered with the cache, without it, and once more
            <textarea rows={2} value={prompt} onInput={(e) => setPrompt(e.currentTarget.value)} />
          </label>
          <label class="short">
            Tokens
            <input type="number" min={4} max={kMostTokens} value={tokens}
              onChange={(e) => setTokens(Math.min(kMostTokens, Math.max(4, Math.round(Number(e.currentTarget.value)) || 48)))} />
          </label>
          {/* Two buttons, not one that changes: it would be a submit button by the time that its click ends. */}
          {isRunning
            ? <button key="stop" type="button" class="stop" onClick={stopExplaining}>Stop</button>
            : <button key="go" type="submit" class="primary" disabled={!prompt.trim()}>Explain</button>}
        </form>
        <p class="small muted" role="status">
          {isRunning && current && `Running ${kNames[current.way]}: ${count(done)} of ${count(kWays.length * tokens)} tokens`}
          {isRunning && !current && "Waiting for the engine"}
        </p>
        {!isRunning && !report && !error && <Announcement />}
        {error && <p class="error" role="alert">{error}</p>}
        {isRunning && current && <div class="card"><TokenTimes runs={runs} /></div>}
        {report && !isRunning && <Story report={report} />}
      </div>
    </div>
  );
}
