import { useEffect, useRef, useState } from "preact/hooks";
import { download } from "../download";
import { plural } from "../format";
import { useStore } from "../store";
import { send } from "./answer";
import { ChatBar, ChatList } from "./chat_bar";
import type { Chat } from "./chat";
import { chatStore, dropUndo, dropUnreadable, openCall, undo } from "./chats";
import { Composer } from "./composer";
import { MessageView } from "./message";
import { SettingsView } from "./settings_view";

const kExamples = ["Tell me of the sea.", "Why is the second token fast?", "Who goes there?"];

function Empty({ hasOthers }: { hasOthers: boolean }) {
  return (
    <div class="empty">
      <p class="empty-title">The first token costs the prompt. The second does not.</p>
      <p class="muted">
        {hasOthers
          ? "This chat has the same system prompt as the last one, so that part of the prompt is a prefix cache hit: see the bar under your message."
          : "Send a message, then another. The bar under each shows how many prompt tokens were prefix cache hits; the map shows their pages."}
      </p>
      <div class="examples">
        {kExamples.map((text) => <button type="button" onClick={() => void send(text)}>{text}</button>)}
      </div>
    </div>
  );
}

// Reports stored chats that could not be read, and lets the user save or delete them.
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

function UndoBar({ text, isAnswering }: { text: string; isAnswering: boolean }) {
  return (
    <div class="notice undo" role="status">
      <p>{text}</p>
      <button type="button" disabled={isAnswering} onClick={undo}>Undo</button>
      <button type="button" onClick={dropUndo}>Close</button>
    </div>
  );
}

const kNearEnd = 40; // pixels

// Shows the messages. Sending one scrolls to the end, and the view follows the answer until the user scrolls up.
function Log({ chat, isAnswering, hasOthers }: { chat: Chat; isAnswering: boolean; hasOthers: boolean }) {
  const log = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const lastTop = useRef(0); // scroll position at the last scroll event
  const [isAway, setAway] = useState(false);
  const toEnd = () => {
    follows.current = true;
    log.current!.scrollTop = log.current!.scrollHeight;
    lastTop.current = log.current!.scrollTop;
    setAway(false);
  };
  useEffect(() => {
    if (follows.current && log.current) toEnd();
  }, [chat]);
  useEffect(toEnd, [chat.id]);
  useEffect(() => {
    if (isAnswering) toEnd();
  }, [isAnswering]);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (follows.current) toEnd();
    });
    observer.observe(log.current!);
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    const el = log.current!;
    // More text may move the end before the event of a jump to the end is handled, so only an upward movement is the
    // user's.
    const distanceToEnd = el.scrollHeight - el.scrollTop - el.clientHeight;
    if (el.scrollTop < lastTop.current && distanceToEnd > 1) follows.current = false;
    else if (distanceToEnd < kNearEnd) follows.current = true;
    lastTop.current = el.scrollTop;
    setAway(!follows.current);
  };
  const last = chat.messages.length - 1;
  return (
    <div class="log-box">
      <div class="log" ref={log} onScroll={onScroll} tabIndex={0} role="log" aria-label="Messages">
        {last < 0 && <Empty hasOthers={hasOthers} />}
        <ol class="messages">
          {chat.messages.map((message, i) => (
            <MessageView key={`${chat.id} ${i}`} message={message} index={i} isLast={i === last} isRunning={isAnswering && i === last} isBusy={isAnswering} />
          ))}
        </ol>
      </div>
      {isAway && <button type="button" class="to-end" title="Scroll to the latest message" aria-label="Scroll to the latest message" onClick={toEnd}>↓</button>}
    </div>
  );
}

export function ChatPanel() {
  const { chats, current, isAnswering, settings, unreadable, undo: undone } = useStore(chatStore);
  const chat = chats.find((c) => c.id === current)!;
  return (
    <section class="chat" aria-label="Chat">
      <aside class="chat-side" aria-label="All chats"><ChatList chats={chats} current={current} /></aside>
      <div class="chat-main">
        <ChatBar chats={chats} chat={chat} isAnswering={isAnswering} />
        <SettingsView settings={settings} />
        <Unreadable chats={unreadable} />
        <Log chat={chat} isAnswering={isAnswering} hasOthers={chats.length > 1} />
        {undone && <UndoBar text={undone.text} isAnswering={isAnswering} />}
        <Composer isAnswering={isAnswering} call={openCall(chat)} />
      </div>
    </section>
  );
}
