import { useEffect, useRef, useState } from "preact/hooks";
import { send, stop } from "./answer";
import {
  type Settings, type ToolCall,
  changeSettings, chatStore, deleteChat, dropUnreadable, newChat, openCall, openChat, readTools,
} from "./chats";
import { download } from "../download";
import { plural } from "../format";
import { MessageView } from "./message";
import { useStore } from "../store";

function NumberField(props: {
  label: string; value: number; min: number; max: number; step: number; onChange: (value: number) => void;
}) {
  const { label, value, min, max, step, onChange } = props;
  const take = (text: string) => {
    const number = Number.parseFloat(text);
    if (Number.isFinite(number)) onChange(Math.min(max, Math.max(min, number)));
  };
  return (
    <label>
      <span>{label}</span>
      <input type="number" value={value} min={min} max={max} step={step}
        onChange={(e) => take(e.currentTarget.value)} />
    </label>
  );
}

// The tools that a model may call, as a request has them; results are typed by hand.
function ToolsField({ text }: { text: string }) {
  let error = "";
  try {
    readTools(text);
  } catch (e) {
    error = (e as Error).message;
  }
  return (
    <label class="wide">
      <span>Tools that the model may call: a JSON list as in a request; you answer its calls</span>
      <textarea rows={2} value={text} spellcheck={false} aria-invalid={error !== ""} aria-label="Tools"
        placeholder='[{"type": "function", "function": {"name": "read_file", "parameters": {…}}}]'
        onInput={(e) => changeSettings({ tools: e.currentTarget.value })} />
      {error && <p class="error" role="alert">{error}</p>}
    </label>
  );
}

function SettingsView({ settings }: { settings: Settings }) {
  return (
    <details class="settings">
      <summary>System prompt and sampling</summary>
      <label class="wide">
        <span>System prompt, in front of every chat</span>
        <textarea rows={3} value={settings.system} onInput={(e) => changeSettings({ system: e.currentTarget.value })} />
      </label>
      <div class="fields">
        <NumberField label="Temperature" value={settings.temperature} min={0} max={2} step={0.1}
          onChange={(temperature) => changeSettings({ temperature })} />
        <NumberField label="Top p" value={settings.topP} min={0.01} max={1} step={0.05}
          onChange={(topP) => changeSettings({ topP })} />
        <NumberField label="Max tokens" value={settings.maxTokens} min={1} max={1_000_000} step={1}
          onChange={(maxTokens) => changeSettings({ maxTokens: Math.round(maxTokens) })} />
        <label>
          <span>Seed</span>
          <input inputMode="numeric" placeholder="random" value={settings.seed}
            onInput={(e) => changeSettings({ seed: e.currentTarget.value.replace(/\D/g, "") })} />
        </label>
      </div>
      <ToolsField text={settings.tools} />
    </details>
  );
}

function Composer({ isAnswering, call }: { isAnswering: boolean; call: ToolCall | undefined }) {
  const [text, setText] = useState("");
  const submit = () => {
    if (!text.trim() || isAnswering) return;
    void send(text);
    setText("");
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    submit();
  };
  return (
    <form class="composer" onSubmit={(e) => { e.preventDefault(); submit(); }}>
      <textarea id="prompt" aria-label="Message" rows={2} value={text}
        placeholder={call ? `What does ${call.name} answer?` : "Write a message"}
        onInput={(e) => setText(e.currentTarget.value)} onKeyDown={onKeyDown} />
      {isAnswering
        ? <button type="button" class="stop" onClick={stop}>Stop</button>
        : <button type="submit" class="primary" disabled={!text.trim()}>Send</button>}
    </form>
  );
}

const kExamples = ["Tell me of the sea.", "Why is the second token fast?", "Who goes there?"];

function Empty({ hasOthers }: { hasOthers: boolean }) {
  return (
    <div class="empty">
      <p class="empty-title">The first token costs the prompt. The second does not.</p>
      <p class="muted">
        {hasOthers
          ? "This chat begins with the same system prompt as the last one. Its keys and values are in the cache: watch the bar under your message."
          : "Send a message, then another. The bar under each shows how much of the prompt was found in the cache; the map shows where."}
      </p>
      <div class="examples">
        {kExamples.map((text) => <button type="button" onClick={() => void send(text)}>{text}</button>)}
      </div>
    </div>
  );
}

// Says that stored chats could not be read, and lets the user save or delete them.
function Unreadable({ chats }: { chats: string[] }) {
  if (chats.length === 0) return null;
  const save = () => download("kvik-unreadable-chats.json", chats.join("\n"), "application/json");
  return (
    <div class="notice" role="status">
      <p>{plural(chats.length, "stored chat")} could not be read. This browser keeps {chats.length === 1 ? "it" : "them"} apart from the others.</p>
      <button type="button" onClick={save}>Download</button>
      <button type="button" onClick={dropUnreadable}>Delete</button>
    </div>
  );
}

export function ChatPanel() {
  const { chats, current, isAnswering, settings, unreadable } = useStore(chatStore);
  const chat = chats.find((c) => c.id === current)!;
  const log = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (follows.current && log.current) log.current.scrollTop = log.current.scrollHeight;
  }, [chat]);
  const onScroll = () => {
    const el = log.current!;
    follows.current = el.scrollHeight - el.scrollTop - el.clientHeight < 40;
  };
  return (
    <section class="chat" aria-label="Chat">
      <div class="chat-bar">
        <div class="chips" role="group" aria-label="Chats">
          {chats.map((c) => (
            <button type="button" aria-pressed={c.id === current} onClick={() => openChat(c.id)}>Chat {c.id}</button>
          ))}
        </div>
        {chat.messages.length > 0 && (
          <button type="button" class="new-chat" onClick={deleteChat} disabled={isAnswering}
            title="This browser keeps chats until they are deleted">Delete chat</button>
        )}
        <button type="button" class="new-chat" onClick={newChat} disabled={isAnswering}
          title="Another chat with the same system prompt">New chat</button>
      </div>
      <SettingsView settings={settings} />
      <Unreadable chats={unreadable} />
      <div class="log" ref={log} onScroll={onScroll} tabIndex={0} role="log" aria-label="Messages">
        {chat.messages.length === 0 && <Empty hasOthers={chats.length > 1} />}
        <ol class="messages">
          {chat.messages.map((message, i) => (
            <MessageView message={message} isRunning={isAnswering && i === chat.messages.length - 1} />
          ))}
        </ol>
      </div>
      <Composer isAnswering={isAnswering} call={openCall(chat)} />
    </section>
  );
}
