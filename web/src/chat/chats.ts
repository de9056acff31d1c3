import { storage } from "../storage";
import { createStore } from "../store";
import { forgetUnreadable, loadChats, storeChats } from "./stored_chats";

// What the usage of an answer says of its prompt.
export interface PromptCost {
  cached: number;
  computed: number;
  miss: string | null; // why no more was found
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON, as far as it has come
}

export interface Message {
  role: "user" | "assistant" | "tool";
  text: string;
  thought?: string;
  calls?: ToolCall[]; // of an assistant
  answers?: ToolCall; // of a tool: the call whose result this is
  cost?: PromptCost; // of the whole prompt that ended with this message
  ttftMs?: number;
  itlMs?: number; // mean
  tokens?: number;
  end?: "stop" | "length" | "stopped" | "error";
  error?: string;
}

export interface Chat {
  id: number;
  title?: string; // given by the user
  messages: Message[];
}

export interface Settings {
  system: string;
  temperature: number;
  topP: number;
  maxTokens: number;
  seed: string; // empty: another one each time
  tools: string; // a JSON list as in a request, or empty
}

export interface Chats {
  chats: Chat[];
  current: number; // id
  isAnswering: boolean;
  settings: Settings;
  unreadable: string[]; // stored chats that this page cannot read
}

const kSettings = "kvik.settings";
const kPauseMs = 400;
const kDefaults: Settings = {
  system: "You are a helpful assistant. Answer in plain words, and say so where you do not know.",
  temperature: 0.8,
  topP: 0.95,
  maxTokens: 256,
  seed: "",
  tools: "",
};

// Settings of another type than the default's are left out.
function storedSettings(): Settings {
  const settings: Record<string, string | number> = { ...kDefaults };
  try {
    const stored = JSON.parse(storage.get(kSettings) ?? "{}") as Record<string, unknown>;
    for (const [name, value] of Object.entries(kDefaults)) {
      if (typeof stored?.[name] === typeof value) settings[name] = stored[name] as string | number;
    }
  } catch {
    // The defaults serve.
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
  };
}

export const chatStore = createStore<Chats>(initial());

const keep = () => storeChats(chatStore.get().chats, chatStore.get().current);

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

// Another conversation with the same system prompt; an empty one serves again.
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

// Forgets the chat that is shown.
export function deleteChat(): void {
  const state = chatStore.get();
  const chats = state.chats.filter((chat) => chat.id !== state.current);
  chatStore.set({ ...state, ...(chats.length > 0 ? { chats, current: chats.at(-1)!.id } : kNone) });
}

export function changeMessage(chatId: number, index: number, change: (message: Message) => Message): void {
  const state = chatStore.get();
  const chats = state.chats.map((chat) =>
    chat.id === chatId
      ? { ...chat, messages: chat.messages.map((m, i) => (i === index ? change(m) : m)) }
      : chat,
  );
  chatStore.set({ ...state, chats });
}

// The first call at the end of a chat that nobody has told the result of.
export function openCall(chat: Chat): ToolCall | undefined {
  const last = chat.messages.findLastIndex((m) => m.role === "assistant");
  const results = chat.messages.slice(last + 1);
  if (!results.every((m) => m.role === "tool")) return undefined;
  return chat.messages[last]?.calls?.[results.length];
}

// The tools of the settings; an Error says what is wrong with them.
export function readTools(text: string): unknown[] {
  if (!text.trim()) return [];
  const tools = JSON.parse(text) as unknown;
  if (!Array.isArray(tools)) throw new Error("a list of tools was expected: [{\"type\": \"function\", …}]");
  return tools;
}
