import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { download } from "../download";
import { plural } from "../format";
import { liveStore } from "../live";
import type { Chat } from "./chat";
import { deleteChat, newChat, openChat, renameChat, titleOf } from "./chats";
import { asJson, asMarkdown, fileName } from "./export";
import { Menu } from "./menu";

// Lists all chats, the newest first, and scrolls the current one into view.
export function ChatList({ chats, current }: { chats: Chat[]; current: number }) {
  const list = useRef<HTMLUListElement>(null);
  useLayoutEffect(() => {
    const entry = list.current?.querySelector<HTMLElement>("[aria-current=true]");
    if (!entry) return;
    // scrollIntoView() would scroll the whole page on a phone.
    const box = list.current!;
    if (entry.offsetTop < box.scrollTop) box.scrollTop = entry.offsetTop;
    else if (entry.offsetTop + entry.offsetHeight > box.scrollTop + box.clientHeight) {
      box.scrollTop = entry.offsetTop + entry.offsetHeight - box.clientHeight;
    }
  }, [current, chats.length]);
  return (
    <ul ref={list} class="chat-list" aria-label="Chats">
      {[...chats].reverse().map((chat) => (
        <li key={chat.id}>
          <button type="button" aria-current={chat.id === current} title={titleOf(chat)} onClick={() => openChat(chat.id)}>
            {titleOf(chat)}
          </button>
        </li>
      ))}
    </ul>
  );
}

// Shows the title of the chat, or a form while it is being renamed.
function Title({ chat, isRenamed, onDone }: { chat: Chat; isRenamed: boolean; onDone: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (isRenamed) input.current?.select();
  }, [isRenamed]);
  if (!isRenamed) return <h2 class="chat-title" title={titleOf(chat)}>{titleOf(chat)}</h2>;
  const save = () => {
    if (!input.current) return; // already saved: removing a focused field also fires blur
    renameChat(chat.id, input.current.value);
    onDone();
  };
  return (
    <form class="chat-title" onSubmit={(e) => { e.preventDefault(); save(); }}>
      <input ref={input} aria-label="Title of the chat" defaultValue={titleOf(chat)} maxLength={200} onBlur={save}
        onKeyDown={(e) => { if (e.key === "Escape") onDone(); }} />
    </form>
  );
}

export function ChatBar(props: { chats: Chat[]; chat: Chat; isAnswering: boolean }) {
  const { chats, chat, isAnswering } = props;
  const [isRenamed, setRenamed] = useState(false);
  useEffect(() => setRenamed(false), [chat.id]);
  const isEmpty = chat.messages.length === 0;
  const save = (text: string, suffix: string, type: string) => download(fileName(chat, suffix), text, type);
  return (
    <div class="chat-bar">
      <Menu kind="chats-menu" label={`☰ ${chats.length}`} title={`${plural(chats.length, "chat")}: open another chat`}>
        <ChatList chats={chats} current={chat.id} />
      </Menu>
      <Title chat={chat} isRenamed={isRenamed} onDone={() => setRenamed(false)} />
      {!isEmpty && (
        <Menu kind="chat-menu" label="⋯" title="Rename, export or delete this chat">
          <button type="button" onClick={() => setRenamed(true)}>Rename</button>
          <button type="button" onClick={() => save(asMarkdown(chat, liveStore.get().model), "md", "text/markdown")}>Export as Markdown</button>
          <button type="button" onClick={() => save(asJson(chat), "json", "application/json")}>Export as JSON</button>
          <button type="button" class="danger" disabled={isAnswering} onClick={() => deleteChat(chat.id)}>Delete chat</button>
        </Menu>
      )}
      <button type="button" class="new-chat" onClick={newChat} disabled={isAnswering}
        title="New chat with the same system prompt">New chat</button>
    </div>
  );
}
