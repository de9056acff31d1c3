import { useState } from "preact/hooks";
import { count } from "../format";
import { useStore } from "../store";
import "./explain.css";
import { explain, explainStore, stopExplaining } from "./live_explain";
import { type Way, kNames } from "./report";
import { Story, TokenTimes } from "./story";

// Long enough for the cost of recomputing it to be visible.
const kExample =
  "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer the slings and arrows of outrageous " +
  "fortune, or to take arms against a sea of troubles, and by opposing end them. To die, to sleep, no more; and by a sleep to " +
  "say we end the heart-ache and the thousand natural shocks that flesh is heir to: 'tis a consummation devoutly to be wish'd.";
const kWays: Way[] = ["cold", "naive", "warm"];
const kMostTokens = 64;
const kTokens = 32;

function Announcement() {
  return (
    <section class="card announcement">
      <h2>What this measures</h2>
      <p>
        The loaded model answers your prompt three times: <b>with the cache</b>, so that keys and values are computed
        once and stored; <b>without it</b>, so that every token recomputes those of all tokens before it; and <b>once more</b>,
        with the pages that the first run left in the cache.
      </p>
      <p>
        The report shows the milliseconds and the rows of K and V of every token, how both grow with the context, and whether a single
        bit of the answer differs. All runs are repeated up to three times, and each token gets the minimum of its times: other programs
        can only make one longer. Chats have priority over this measurement.
      </p>
    </section>
  );
}

export function ExplainPanel() {
  const { isRunning, runs, repeat, report, error } = useStore(explainStore);
  const [prompt, setPrompt] = useState(kExample);
  const [tokens, setTokens] = useState(kTokens);
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
            <textarea rows={4} value={prompt} onInput={(e) => setPrompt(e.currentTarget.value)} />
          </label>
          <label class="short">
            Tokens
            <input type="number" min={4} max={kMostTokens} value={tokens}
              onChange={(e) => setTokens(Math.min(kMostTokens, Math.max(4, Math.round(Number(e.currentTarget.value)) || kTokens)))} />
          </label>
          {/* Two buttons instead of one that changes: it would become a submit button before its click ends. */}
          {isRunning
            ? <button key="stop" type="button" class="stop" onClick={stopExplaining}>Stop</button>
            : <button key="go" type="submit" class="primary" disabled={!prompt.trim()}>Explain</button>}
        </form>
        <p class="small muted" role="status">
          {isRunning && repeat && `Repeating all three runs for the minimum times: repeat ${repeat.number} of at most ${repeat.of}`}
          {isRunning && !repeat && current && `Running ${kNames[current.way]}: ${count(done)} of ${count(kWays.length * tokens)} tokens`}
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
