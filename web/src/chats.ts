import { createStore } from "./store";

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
}

const kSettings = "kvik.settings";
const kChats = "kvik.chats";
const kMostCharacters = 2_000_000; // of all chats that are kept: a browser gives a site about five
const kPauseMs = 400;
const kDefaults: Settings = {
  system: "You are a helpful assistant. Answer in plain words, and say so where you do not know.",
  temperature: 0.8,
  topP: 0.95,
  maxTokens: 256,
  seed: "",
  tools: "",
};

type Kept = Pick<Chats, "chats" | "current">;
const kNone: Kept = { chats: [{ id: 1, messages: [] }], current: 1 };

function stored<T>(name: string): Partial<T> {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "{}") as Partial<T>;
  } catch {
    return {};
  }
}

function storedChats(): Kept {
  const { chats, current } = stored<Kept>(kChats);
  if (!Array.isArray(chats) || chats.length === 0) return kNone;
  if (!chats.every((chat) => Number.isInteger(chat?.id) && Array.isArray(chat.messages))) return kNone;
  // An answer that was on its way when the page was left ended there.
  const ended = (m: Message): Message => (m.role === "assistant" && !m.end ? { ...m, end: "stopped" } : m);
  const whole = chats.map((chat) => ({ id: chat.id, messages: chat.messages.map(ended) }));
  return { chats: whole, current: whole.some((chat) => chat.id === current) ? current! : whole[0]!.id };
}

export const chatStore = createStore<Chats>({
  ...storedChats(),
  isAnswering: false,
  settings: { ...kDefaults, ...stored<Settings>(kSettings) },
});

// Writes the newest chats that there is room for.
function keep(): void {
  const { chats, current } = chatStore.get();
  let room = kMostCharacters;
  const kept = chats.filter((chat) => chat.messages.length > 0).reverse().filter((chat) => {
    room -= JSON.stringify(chat).length;
    return room >= 0;
  });
  try {
    if (kept.length === 0) localStorage.removeItem(kChats);
    else localStorage.setItem(kChats, JSON.stringify({ chats: kept.reverse(), current }));
  } catch {
    localStorage.removeItem(kChats); // no room at all: this browser keeps nothing
  }
}

let pending = 0;
chatStore.subscribe(() => {
  pending ||= window.setTimeout(() => {
    pending = 0;
    keep();
  }, kPauseMs);
});
window.addEventListener("pagehide", keep);

export function changeSettings(change: Partial<Settings>): void {
  const state = chatStore.get();
  const settings = { ...state.settings, ...change };
  localStorage.setItem(kSettings, JSON.stringify(settings));
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
