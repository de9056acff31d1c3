import { askForKey, authorization } from "./key";
import { readEvents } from "./sse";
import { createStore } from "./store";

// What the usage of an answer says of its prompt.
export interface PromptCost {
  cached: number;
  computed: number;
  miss: string | null; // why no more was found
}

export interface Message {
  role: "user" | "assistant";
  text: string;
  thought?: string;
  cost?: PromptCost; // of the whole prompt that ended with this message of the user
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
}

export interface Chats {
  chats: Chat[];
  current: number; // id
  isAnswering: boolean;
  settings: Settings;
}

const kSettings = "kvik.settings";
const kDefaults: Settings = {
  system: "You are a helpful assistant. Answer in plain words, and say so where you do not know.",
  temperature: 0.8,
  topP: 0.95,
  maxTokens: 256,
  seed: "",
};

function storedSettings(): Settings {
  try {
    return { ...kDefaults, ...(JSON.parse(localStorage.getItem(kSettings) ?? "{}") as Partial<Settings>) };
  } catch {
    return kDefaults;
  }
}

export const chatStore = createStore<Chats>({
  chats: [{ id: 1, messages: [] }],
  current: 1,
  isAnswering: false,
  settings: storedSettings(),
});

const kOneReadMs = 0.5;

let running: AbortController | null = null;

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

export function stop(): void {
  running?.abort();
}

function changeMessage(chatId: number, index: number, change: (message: Message) => Message): void {
  const state = chatStore.get();
  const chats = state.chats.map((chat) =>
    chat.id === chatId
      ? { ...chat, messages: chat.messages.map((m, i) => (i === index ? change(m) : m)) }
      : chat,
  );
  chatStore.set({ ...state, chats });
}

function payload(chat: Chat, settings: Settings): object {
  const messages: { role: string; content: string }[] = [];
  if (settings.system.trim()) messages.push({ role: "system", content: settings.system });
  for (const { role, text } of chat.messages) messages.push({ role, content: text });
  const seed = Number.parseInt(settings.seed, 10);
  return {
    messages,
    temperature: settings.temperature,
    top_p: settings.topP,
    max_completion_tokens: settings.maxTokens,
    ...(Number.isSafeInteger(seed) ? { seed } : {}),
    stream: true,
    stream_options: { include_usage: true },
    kvik: { explain_cache: true },
  };
}

interface Chunk {
  choices?: { delta?: { content?: string; reasoning_content?: string }; finish_reason?: string | null }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
  } | null;
  kvik?: { cache?: { miss?: { reason?: string; position?: number } | null }[] };
  error?: { message?: string };
}

export async function send(text: string): Promise<void> {
  const state = chatStore.get();
  const before = state.chats.find((chat) => chat.id === state.current);
  if (!before || state.isAnswering || !text.trim()) return;
  const asked: Chat = { id: before.id, messages: [...before.messages, { role: "user", text }] };
  const answered: Chat = { ...asked, messages: [...asked.messages, { role: "assistant", text: "" }] };
  chatStore.set({
    ...state,
    isAnswering: true,
    chats: state.chats.map((chat) => (chat.id === answered.id ? answered : chat)),
  });
  running = new AbortController();
  const answer = new Answer(answered.id, answered.messages.length - 1);
  try {
    await answer.stream(payload(asked, state.settings), running.signal);
  } catch (error) {
    answer.fail(error, running.signal.aborted);
  }
  answer.flush();
  running = null;
  chatStore.set({ ...chatStore.get(), isAnswering: false });
}

// One answer on its way: what came since the last frame is shown with the next one.
class Answer {
  private readonly asked = performance.now();
  private first = 0;
  private last = 0;
  private nEvents = 0;
  private nReads = 0;
  private nTokens = 0;
  private text = "";
  private thought = "";
  private frame = 0;

  constructor(private readonly chat: number, private readonly index: number) {}

  async stream(body: object, signal: AbortSignal): Promise<void> {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization() },
      body: JSON.stringify(body),
      signal,
    });
    if (!response.ok || !response.body) {
      if (response.status === 401) askForKey();
      const answer = (await response.json().catch(() => null)) as Chunk | null;
      throw new Error(answer?.error?.message ?? `the server answered ${response.status}`);
    }
    let hasEnded = false;
    for await (const event of readEvents(response.body)) {
      if (event.data === "[DONE]") break;
      const chunk = JSON.parse(event.data) as Chunk;
      if (chunk.error) throw new Error(chunk.error.message ?? "the server could not go on");
      hasEnded = this.take(chunk) || hasEnded;
    }
    if (!hasEnded) throw new Error("the stream ended before the answer did");
  }

  fail(error: unknown, wasStopped: boolean): void {
    const message = error instanceof TypeError ? "the server cannot be reached" : (error as Error).message;
    this.change((m) => (wasStopped ? { ...m, end: "stopped" } : { ...m, end: "error", error: message }));
  }

  // Shows what waits.
  flush(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const ttftMs = this.first ? this.first - this.asked : undefined;
    // Tokens that came all at once say nothing of the time between them.
    const n = this.nTokens || this.nEvents;
    const itlMs = this.nReads > 2 && n > 1 ? (this.last - this.first) / (n - 1) : undefined;
    this.change((m) => ({ ...m, text: this.text, thought: this.thought || undefined, ttftMs, itlMs }));
  }

  // True for the chunk that ends the answer.
  private take(chunk: Chunk): boolean {
    const choice = chunk.choices?.[0];
    const { content = "", reasoning_content: thought = "" } = choice?.delta ?? {};
    if (content || thought) {
      const now = performance.now();
      if (now - this.last > kOneReadMs) this.nReads += 1;
      this.last = now;
      this.first ||= now;
      this.nEvents += 1;
      this.text += content;
      this.thought += thought;
      this.frame ||= requestAnimationFrame(() => this.flush());
    }
    if (chunk.usage) this.takeUsage(chunk);
    const end = choice?.finish_reason;
    if (end) this.change((m) => ({ ...m, end: end === "length" ? "length" : "stop" }));
    return Boolean(end);
  }

  private takeUsage(chunk: Chunk): void {
    const usage = chunk.usage!;
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const miss = chunk.kvik?.cache?.[0]?.miss;
    const cost = { cached, computed: usage.prompt_tokens - cached, miss: miss?.reason ?? null };
    changeMessage(this.chat, this.index - 1, (m) => ({ ...m, cost }));
    this.nTokens = usage.completion_tokens;
    this.change((m) => ({ ...m, tokens: usage.completion_tokens }));
  }

  private change(change: (message: Message) => Message): void {
    changeMessage(this.chat, this.index, change);
  }
}
