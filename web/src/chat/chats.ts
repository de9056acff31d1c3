import { storage } from "../storage";
import { createStore } from "../store";
import type { Chat, Message, ToolCall } from "./chat";
import { forgetUnreadable, loadChats, setAllApart, storeChats } from "./stored_chats";

export interface Settings {
  system: string;
  temperature: number;
  topP: number;
  maxTokens: number;
  seed: string; // empty: a new one for each request
  tools: string; // a JSON list as in a request, or empty
}

export interface Chats {
  chats: Chat[];
  current: number; // id of the current chat
  isAnswering: boolean;
  settings: Settings;
  unreadable: string[]; // stored chats that this page cannot read
  undo: Undo | null;
}

// A chat before it was deleted or shortened.
export interface Undo {
  text: string; // text that describes the action
  chat: Chat;
  place: number; // index among the chats
}

const kSettings = "kvik.settings";
const kPauseMs = 400;
const kUndoMs = 12_000;
const kDefaults: Settings = {
  system: "You are a helpful assistant. Answer in plain words, and say so where you do not know.",
  temperature: 0.8,
  topP: 0.95,
  maxTokens: 1024,
  seed: "",
  tools: "",
};

// Returns the stored settings. Those with another type than the default are ignored.
function storedSettings(): Settings {
  const settings: Record<string, string | number> = { ...kDefaults };
  try {
    const stored = JSON.parse(storage.get(kSettings) ?? "{}") as Record<string, unknown>;
    for (const [name, value] of Object.entries(kDefaults)) {
      if (typeof stored?.[name] === typeof value) settings[name] = stored[name] as string | number;
    }
  } catch {
    // The defaults are used.
  }
  return settings as unknown as Settings;
}

const kNone: Pick<Chats, "chats" | "current"> = { chats: [{ id: 1, messages: [] }], current: 1 };

function initial(): Chats {
  const { chats, current, unreadable } = loadChats();
  const known = chats.some((chat) => chat.id === current) ? current! : chats[0]?.id;
  return {
    ...(known === undefined ? kNone : { chats, current: known }),
    isAnswering: false,
    settings: storedSettings(),
    unreadable,
    undo: null,
  };
}

export const chatStore = createStore<Chats>(initial());

let isAbandoned = false;

function keep(): void {
  if (!isAbandoned) storeChats(chatStore.get().chats, chatStore.get().current);
}

// Moves all stored chats aside and starts without chats.
export function abandonChats(): void {
  keep();
  isAbandoned = true;
  setAllApart();
  location.reload();
}

let pending = 0;
chatStore.subscribe(() => {
  pending ||= window.setTimeout(() => {
    pending = 0;
    keep();
  }, kPauseMs);
});
window.addEventListener("pagehide", keep);

// Deletes the stored chats that could not be read.
export function dropUnreadable(): void {
  forgetUnreadable();
  chatStore.set({ ...chatStore.get(), unreadable: [] });
}

export function changeSettings(change: Partial<Settings>): void {
  const state = chatStore.get();
  const settings = { ...state.settings, ...change };
  storage.set(kSettings, JSON.stringify(settings));
  chatStore.set({ ...state, settings });
}

// Opens a new chat with the same system prompt. An existing empty chat is reused.
export function newChat(): void {
  const state = chatStore.get();
  const empty = state.chats.find((chat) => chat.messages.length === 0);
  if (empty) return openChat(empty.id);
  const id = Math.max(...state.chats.map((chat) => chat.id)) + 1;
  chatStore.set({ ...state, chats: [...state.chats, { id, messages: [] }], current: id });
}

export function openChat(id: number): void {
  chatStore.set({ ...chatStore.get(), current: id });
}

const kMostTitle = 60; // characters

// Returns the title given by the user, or the beginning of the first message.
export function titleOf(chat: Chat): string {
  if (chat.title) return chat.title;
  const first = chat.messages.find((m) => m.role === "user")?.text.trim().split("\n")[0] ?? "";
  const characters = [...first.slice(0, 4 * kMostTitle)];
  if (characters.length > kMostTitle) return `${characters.slice(0, kMostTitle - 1).join("").trimEnd()}…`;
  return first || "New chat";
}

export function changeChat(id: number, change: (chat: Chat) => Chat): void {
  const state = chatStore.get();
  chatStore.set({ ...state, chats: state.chats.map((chat) => (chat.id === id ? change(chat) : chat)) });
}

// Renames a chat. An empty title restores the automatic one.
export function renameChat(id: number, title: string): void {
  changeChat(id, ({ title: _, ...chat }) => (title.trim() ? { ...chat, title: title.trim().slice(0, 200) } : chat));
}

let undoTimer = 0;

// Offers for a limited time to restore `chat` to its current content.
export function offerUndo(text: string, chat: Chat): void {
  const state = chatStore.get();
  const place = state.chats.findIndex((other) => other.id === chat.id);
  chatStore.set({ ...state, undo: { text, chat, place } });
  clearTimeout(undoTimer);
  undoTimer = window.setTimeout(dropUndo, kUndoMs);
}

export function dropUndo(): void {
  chatStore.set({ ...chatStore.get(), undo: null });
}

export function undo(): void {
  const state = chatStore.get();
  if (!state.undo || state.isAnswering) return;
  const { chat, place } = state.undo;
  // The empty chat that replaced the last one is removed.
  const others = state.chats.filter((other) => other.id !== chat.id && other.messages.length > 0);
  const chats = [...others.slice(0, place), chat, ...others.slice(place)];
  chatStore.set({ ...state, undo: null, chats, current: chat.id });
}

export function deleteChat(id: number): void {
  const chat = chatStore.get().chats.find((other) => other.id === id);
  if (!chat) return;
  offerUndo(`Deleted “${titleOf(chat)}”.`, chat);
  const state = chatStore.get();
  const chats = state.chats.filter((other) => other !== chat);
  const current = state.current === id ? chats.at(-1)?.id : state.current;
  chatStore.set({ ...state, ...(current === undefined ? freshAfter(id) : { chats, current }) });
}

// Returns one empty chat with a new id.
const freshAfter = (id: number): Pick<Chats, "chats" | "current"> => ({ chats: [{ id: id + 1, messages: [] }], current: id + 1 });

export function changeMessage(chatId: number, index: number, change: (message: Message) => Message): void {
  changeChat(chatId, (chat) => ({ ...chat, messages: chat.messages.map((m, i) => (i === index ? change(m) : m)) }));
}

// Returns the first tool call at the end of a chat whose result is missing.
export function openCall(chat: Chat): ToolCall | undefined {
  const last = chat.messages.findLastIndex((m) => m.role === "assistant");
  const results = chat.messages.slice(last + 1);
  if (!results.every((m) => m.role === "tool")) return undefined;
  return chat.messages[last]?.calls?.[results.length];
}

// Parses the tools of the settings. Throws an Error with a description if they are invalid.
export function readTools(text: string): unknown[] {
  if (!text.trim()) return [];
  const tools = JSON.parse(text) as unknown;
  if (!Array.isArray(tools)) throw new Error("expected a list of tools: [{\"type\": \"function\", …}]");
  return tools;
}
