import { Boundary } from "../boundary";
import type { Message, PromptCost, ToolCall } from "./chats";
import { count, milliseconds, percent } from "../format";
import { Markdown } from "../markdown/blocks";

const kMisses: Record<string, string> = {
  diverged: "the rest is new: other tokens followed there before",
  never_seen: "the rest was never seen",
  evicted: "the rest had been evicted",
  too_short: "the rest is too short to share",
  no_snapshot: "the nearest snapshot of its state is there",
  cache_off: "the cache is off",
  tier_timed_out: "a tier took longer than computing it",
  tier_declined: "computing it was quicker than reading it",
  tier_damaged: "a tier held it, damaged",
};

function CostBar({ cost }: { cost: PromptCost }) {
  const all = cost.cached + cost.computed;
  const share = all > 0 ? cost.cached / all : 0;
  const why = cost.miss ? kMisses[cost.miss] : undefined;
  return (
    <div class="cost" title={why}>
      <div class="cost-bar" aria-hidden="true">
        <span class="cost-cached" style={{ width: `${100 * share}%` }} />
        <span class="cost-computed" style={{ width: `${100 * (1 - share)}%` }} />
      </div>
      <div class="cost-text">
        <span><i class="swatch cached" /><b class="cost-cached-count">{count(cost.cached)}</b> cached</span>
        <span><i class="swatch computed" /><b>{count(cost.computed)}</b> computed</span>
        <span class="muted">{percent(share)} of {count(all)} prompt tokens found</span>
      </div>
    </div>
  );
}

const kEnds = { stop: "", length: "cut at the token limit", stopped: "stopped", error: "" };

function Facts({ message }: { message: Message }) {
  const facts: [string, string, string][] = [];
  if (message.ttftMs !== undefined) facts.push(["TTFT", milliseconds(message.ttftMs), "time to first token"]);
  if (message.itlMs !== undefined) facts.push(["ITL", milliseconds(message.itlMs), "mean inter-token latency"]);
  if (message.itlMs) facts.push(["", `${(1000 / message.itlMs).toFixed(0)} tok/s`, "while decoding"]);
  if (message.tokens !== undefined) facts.push(["", `${count(message.tokens)} tokens`, "generated"]);
  const end = message.end ? kEnds[message.end] : "";
  if (facts.length === 0 && !end) return null;
  return (
    <div class="facts">
      {facts.map(([name, value, title]) => (
        <span title={title}>{name && <abbr title={title}>{name}</abbr>} {value}</span>
      ))}
      {end && <span>{end}</span>}
    </div>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // still on its way
  }
}

function CallView({ call }: { call: ToolCall }) {
  return (
    <details class="call">
      <summary>Calls <code>{call.name}</code></summary>
      <pre tabIndex={0}>{pretty(call.arguments)}</pre>
    </details>
  );
}

const kMostShown = 200_000; // characters of a message that could not be rendered

// A message that cannot be rendered is shown as plain text, and the others as usual.
export function MessageView(props: { message: Message; isRunning: boolean }) {
  const { message } = props;
  const plain = (error: Error) => (
    <li class={`message ${message.role}`}>
      <p class="error small">This message cannot be shown with formatting ({error.message}). As plain text:</p>
      <pre class="plain" tabIndex={0}>{message.text.slice(0, kMostShown)}</pre>
    </li>
  );
  return <Boundary of={message} fallback={plain}><RenderedMessage {...props} /></Boundary>;
}

function RenderedMessage({ message, isRunning }: { message: Message; isRunning: boolean }) {
  if (message.role === "user") {
    return (
      <li class="message user">
        <div class="bubble">{message.text}</div>
        {message.cost && <CostBar cost={message.cost} />}
      </li>
    );
  }
  if (message.role === "tool") {
    return (
      <li class="message tool">
        <details class="call">
          <summary>Result of <code>{message.answers?.name}</code> <span class="muted">{count(message.text.length)} characters</span></summary>
          <pre tabIndex={0}>{message.text}</pre>
        </details>
        {message.cost && <CostBar cost={message.cost} />}
      </li>
    );
  }
  return (
    <li class="message assistant">
      {message.thought && (
        <details class="thought"><summary>Thoughts</summary><Markdown text={message.thought} /></details>
      )}
      <Markdown text={message.text} />
      {message.calls?.map((call) => <CallView call={call} />)}
      {isRunning && <span class="caret" aria-label="answering" role="img" />}
      {message.error && <p class="error" role="alert">{message.error}</p>}
      <Facts message={message} />
    </li>
  );
}
