import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Boundary } from "../boundary";
import { CopyButton } from "../copy_button";
import type { Message, PromptCost, ToolCall } from "./chat";
import { count, milliseconds, percent, plural } from "../format";
import { Markdown } from "../markdown/blocks";
import { Term } from "../tooltip";
import { continueAnswer, editMessage, regenerate } from "./answer";

// Reasons why no more prompt tokens were cached.
const kMisses: Record<string, string> = {
  diverged: "the rest is new: the prompt diverges from the cached text",
  never_seen: "the rest is new",
  evicted: "the rest had been evicted",
  too_short: "the rest is shorter than a page",
  no_snapshot: "the nearest snapshot (of a recurrent state or an open page) ends there",
  cache_off: "the cache is off",
  tier_timed_out: "reading the rest from a tier timed out",
  tier_declined: "computing the rest was faster than reading it from a tier",
  tier_damaged: "the rest is damaged in its tier",
  tier_failed: "the tier with the rest could not be read",
  tier_no_room: "memory had no room for the rest, which a tier has",
  computed_while_loading: "the rest was computed while a tier delivered the other pages",
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
        <span class="muted">{percent(share)} of {count(all)} prompt tokens were cached</span>
      </div>
    </div>
  );
}

const kEnds = { stop: "", length: "cut at the token limit", stopped: "stopped", error: "" };

function Facts({ message }: { message: Message }) {
  const { ttftMs, itlMs, tokens } = message;
  const end = message.end ? kEnds[message.end] : "";
  if (ttftMs === undefined && tokens === undefined && !end) return null;
  return (
    <div class="facts">
      {ttftMs !== undefined && <span><Term of="ttft">TTFT</Term> {milliseconds(ttftMs)}</span>}
      {itlMs !== undefined && <span><Term of="itl">ITL</Term> {milliseconds(itlMs)}</span>}
      {itlMs ? <span><Term of="speed">{`${(1000 / itlMs).toFixed(0)} tok/s`}</Term></span> : null}
      {tokens !== undefined && <span>{plural(tokens, "token")}</span>}
      {end && <span>{end}</span>}
    </div>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // incomplete while it is streamed
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

interface Props {
  message: Message;
  index: number; // index in its chat
  isLast: boolean;
  isRunning: boolean; // whether this answer is being streamed
  isBusy: boolean; // whether any answer is being streamed
}

// The buttons below a message.
function Actions({ message, isLast, isBusy, onEdit }: Props & { onEdit: () => void }) {
  const isUsers = message.role === "user";
  const hasEnded = message.end !== "error" && !isBusy;
  const isCut = message.end === "length" || message.end === "stopped";
  return (
    <div class="actions" role="group" aria-label={isUsers ? "Your message" : "Answer"}>
      {message.text && <CopyButton label="Copy message" text={() => message.text} />}
      {isUsers && <button type="button" class="quiet" disabled={isBusy} onClick={onEdit}>Edit</button>}
      {!isUsers && isLast && hasEnded && isCut && message.text && !message.calls && (
        <button type="button" class="quiet" onClick={() => void continueAnswer()}>Continue</button>
      )}
      {!isUsers && isLast && hasEnded && <button type="button" class="quiet" onClick={() => void regenerate()}>Regenerate</button>}
    </div>
  );
}

function Editor({ message, index, onDone }: { message: Message; index: number; onDone: () => void }) {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current!.focus(), []);
  const submit = () => {
    const { value } = area.current!;
    if (!value.trim()) return;
    onDone();
    void editMessage(index, value);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.key === "Escape") onDone();
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    submit();
  };
  return (
    <form class="editor" onSubmit={(e) => { e.preventDefault(); submit(); }}>
      <textarea ref={area} rows={3} aria-label="Edit the message" defaultValue={message.text} onKeyDown={onKeyDown} />
      <div>
        <button type="button" onClick={onDone}>Cancel</button>
        <button type="submit" class="primary">Save and send</button>
      </div>
    </form>
  );
}

const kMostShown = 200_000; // characters of a message that could not be rendered

// One message. It is rendered again only when its own properties change, not with every token of another message. A
// message that fails to render is shown as plain text.
export class MessageView extends Component<Props> {
  override shouldComponentUpdate(next: Props): boolean {
    return (Object.keys(next) as (keyof Props)[]).some((name) => next[name] !== this.props[name]);
  }

  override render() {
    const { message } = this.props;
    const plain = (error: Error) => (
      <li class={`message ${message.role}`}>
        <p class="error small">This message cannot be shown with formatting ({error.message}). As plain text:</p>
        <pre class="plain" tabIndex={0}>{message.text.slice(0, kMostShown)}</pre>
      </li>
    );
    return <Boundary of={message} fallback={plain}><RenderedMessage {...this.props} /></Boundary>;
  }
}

function RenderedMessage(props: Props) {
  const { message, index, isRunning } = props;
  const [isEdited, setEdited] = useState(false);
  if (message.role === "user") {
    return (
      <li class={isEdited ? "message user edited" : "message user"}>
        {isEdited
          ? <Editor message={message} index={index} onDone={() => setEdited(false)} />
          : <div class="bubble">{message.text}</div>}
        {message.cost && <CostBar cost={message.cost} />}
        {!isEdited && <Actions {...props} onEdit={() => setEdited(true)} />}
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
      {message.reasoning && (
        <details class="reasoning" open={isRunning && !message.text}><summary>Reasoning</summary><Markdown text={message.reasoning} /></details>
      )}
      <Markdown text={message.text} />
      {message.calls?.map((call) => <CallView call={call} />)}
      {isRunning && <span class="caret" aria-label="answering" role="img" />}
      {message.error && (
        <p class="error" role="alert">
          {message.error}{" "}
          {props.isLast && !props.isBusy && <button type="button" onClick={() => void regenerate()}>Try again</button>}
        </p>
      )}
      <Facts message={message} />
      {!isRunning && <Actions {...props} onEdit={() => undefined} />}
    </li>
  );
}
