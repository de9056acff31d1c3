import { plural } from "../format";
import type { Chat, Message, ToolCall } from "./chat";
import { type Settings, changeChat, changeMessage, chatStore, offerUndo, openCall, readTools } from "./chats";
import { clearNotice, restoreDraft } from "./draft";
import { askForKey, authorization } from "../key";
import { modelField } from "../models/model_store";
import { unreachable } from "../server_error";
import { readEvents } from "../sse";

const kOneReadMs = 0.5;

let running: AbortController | null = null;

export function stop(): void {
  running?.abort();
}

function payload(chat: Chat, settings: Settings): object {
  const messages: object[] = [];
  if (settings.system.trim()) messages.push({ role: "system", content: settings.system });
  messages.push(...chat.messages.map(requestMessage));
  const tools = readTools(settings.tools);
  const seed = Number.parseInt(settings.seed, 10);
  return {
    ...modelField(),
    messages,
    temperature: settings.temperature,
    top_p: settings.topP,
    max_completion_tokens: settings.maxTokens,
    ...(Number.isSafeInteger(seed) ? { seed } : {}),
    stream: true,
    stream_options: { include_usage: true },
    kvik: { explain_cache: true },
    ...(tools.length > 0 ? { tools } : {}),
    ...(chat.messages.at(-1)?.role === "assistant" ? { continue_final_message: true } : {}),
  };
}

const asCall = ({ id, name, arguments: given }: ToolCall) => ({ id, type: "function", function: { name, arguments: given } });

// Converts a message to the form that requests use.
function requestMessage({ role, text, reasoning, calls, answers }: Message): object {
  if (role === "tool") return { role, tool_call_id: answers!.id, content: text };
  return {
    role,
    content: text,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(calls ? { tool_calls: calls.map(asCall) } : {}),
  };
}

interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

interface Chunk {
  choices?: { delta?: Delta; finish_reason?: string | null }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
  } | null;
  kvik?: { cache?: { miss?: { reason?: string; position?: number } | null }[] };
  error?: { message?: string; code?: string | null };
}

// Sends a message in the current chat: to the model, or as the result of a tool call. The model answers when it has
// all results.
export async function send(text: string): Promise<void> {
  const { chat, isBusy } = shown();
  if (isBusy || !text.trim()) return;
  const call = openCall(chat);
  const added: Message = call ? { role: "tool", text, answers: call } : { role: "user", text };
  const asked: Chat = { ...chat, messages: [...chat.messages, added] };
  if (openCall(asked)) changeChat(chat.id, () => asked);
  else await answerTo(asked, { before: chat, text });
}

// Replaces the text of message `index` and sends it; later messages are removed.
export async function editMessage(index: number, text: string): Promise<void> {
  const { chat, isBusy } = shown();
  if (isBusy || !text.trim()) return;
  const nLater = chat.messages.length - index - 2; // without its answer
  const asked: Chat = { ...chat, messages: [...chat.messages.slice(0, index), { role: "user", text }] };
  const isKept = await answerTo(asked, { before: chat, text });
  if (isKept && nLater > 0 && shown().chat.id === chat.id) offerUndo(`${plural(nLater, "later message")} removed.`, chat);
}

// Generates the last answer again.
export async function regenerate(): Promise<void> {
  const { chat, isBusy } = shown();
  const last = chat.messages.findLastIndex((m) => m.role !== "assistant");
  if (!isBusy && last >= 0) await answerTo({ ...chat, messages: chat.messages.slice(0, last + 1) });
}

// Continues the last answer.
export async function continueAnswer(): Promise<void> {
  const { chat, isBusy } = shown();
  if (!isBusy && chat.messages.at(-1)?.role === "assistant") await answerTo(chat);
}

function shown(): { chat: Chat; isBusy: boolean } {
  const { chats, current, isAnswering } = chatStore.get();
  return { chat: chats.find((chat) => chat.id === current)!, isBusy: isAnswering };
}

// The chat before a text was sent. It is restored if the text is too long.
interface Sent {
  before: Chat;
  text: string;
}

// Streams the answer to the last message, or the continuation if the last message is an answer. Returns false if the
// message was removed because it is too long.
async function answerTo(asked: Chat, sent?: Sent): Promise<boolean> {
  const state = chatStore.get();
  const last = asked.messages.at(-1)!;
  const isContinued = last.role === "assistant";
  const begun: Message = isContinued ? withoutEnd(last) : { role: "assistant", text: "" };
  const earlier = isContinued ? asked.messages.slice(0, -1) : asked.messages;
  changeChat(asked.id, () => ({ ...asked, messages: [...earlier, begun] }));
  chatStore.set({ ...chatStore.get(), isAnswering: true });
  clearNotice();
  running = new AbortController();
  const answer = new Answer(asked.id, earlier.length, isContinued ? begun : null);
  let isKept = true;
  try {
    await answer.stream(payload(asked, state.settings), running.signal);
    answer.flush();
  } catch (error) {
    answer.flush();
    isKept = !(sent && error instanceof ServerError && error.isTooLong);
    if (!isKept) takeBack(sent!, error as ServerError);
    else answer.fail(error, running.signal.aborted);
  }
  running = null;
  chatStore.set({ ...chatStore.get(), isAnswering: false });
  return isKept;
}

function takeBack({ before, text }: Sent, error: ServerError): void {
  changeChat(before.id, ({ title }) => ({ ...before, title }));
  restoreDraft(text, `${sentence(error.message)} Your message is back in the input box: shorten it, or start a new chat.`);
}

const sentence = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;

const withoutEnd = ({ end: _end, error: _error, ...message }: Message): Message => message;

class ServerError extends Error {
  constructor(message: string, private readonly status: number, private readonly code?: string | null) {
    super(message);
  }

  // True if the prompt exceeds the context, or the request exceeds the server's limit.
  get isTooLong(): boolean {
    return this.code === "context_length_exceeded" || this.status === 413;
  }
}

// An answer that is being streamed. Text that arrived since the last frame is shown with the next one.
class Answer {
  private readonly asked = performance.now();
  private first = 0;
  private last = 0;
  private nEvents = 0;
  private nReads = 0;
  private nTokens = 0;
  private text = "";
  private reasoning = "";
  private calls: ToolCall[] = [];
  private frame = 0;

  // `begun` is the message that the model continues, or null.
  constructor(private readonly chat: number, private readonly index: number, private readonly begun: Message | null) {}

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
      const message = answer?.error?.message ?? `the server answered ${response.status}`;
      throw new ServerError(message, response.status, answer?.error?.code);
    }
    let hasEnded = false;
    for await (const event of readEvents(response.body)) {
      if (event.data === "[DONE]") break;
      const chunk = JSON.parse(event.data) as Chunk;
      if (chunk.error) throw new ServerError(chunk.error.message ?? "the server could not continue", 200, chunk.error.code);
      hasEnded = this.take(chunk) || hasEnded;
    }
    if (!hasEnded) throw new Error("the stream ended before the answer did");
  }

  fail(error: unknown, wasStopped: boolean): void {
    const message = unreachable(error);
    this.change((m) => (wasStopped ? { ...m, end: "stopped" } : { ...m, end: "error", error: message }));
  }

  // Shows what has arrived since the last frame.
  flush(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const ttftMs = this.first ? this.first - this.asked : undefined;
    // Tokens that arrive together give no time between tokens.
    const n = this.nTokens || this.nEvents;
    const itlMs = this.nReads > 2 && n > 1 ? (this.last - this.first) / (n - 1) : undefined;
    const calls = this.calls.length > 0 ? [...this.calls] : undefined;
    const { begun } = this;
    if (begun) return this.change((m) => ({ ...m, text: begun.text + this.text, calls, itlMs: itlMs ?? m.itlMs }));
    this.change((m) => ({ ...m, text: this.text, reasoning: this.reasoning || undefined, calls, ttftMs, itlMs }));
  }

  // Processes a chunk. Returns true for the last chunk of the answer.
  private take(chunk: Chunk): boolean {
    const choice = chunk.choices?.[0];
    const { content, reasoning_content: reasoning, tool_calls: calls = [] } = choice?.delta ?? {};
    if (content || reasoning || calls.length > 0) {
      const now = performance.now();
      if (now - this.last > kOneReadMs) this.nReads += 1;
      this.last = now;
      this.first ||= now;
      this.nEvents += 1;
      this.text += content ?? "";
      this.reasoning += reasoning ?? "";
      for (const { index, id = "", function: f } of calls) {
        const known = this.calls[index] ?? { id, name: "", arguments: "" };
        this.calls[index] = { id: known.id, name: known.name + (f?.name ?? ""), arguments: known.arguments + (f?.arguments ?? "") };
      }
      this.frame ||= requestAnimationFrame(() => this.flush());
    }
    if (chunk.usage) this.takeUsage(chunk);
    const end = choice?.finish_reason;
    if (end) this.change((m) => ({ ...m, end: end === "length" ? "length" : "stop" }));
    return Boolean(end);
  }

  private takeUsage(chunk: Chunk): void {
    const usage = chunk.usage!;
    this.nTokens = usage.completion_tokens;
    const tokens = (this.begun?.tokens ?? 0) + usage.completion_tokens;
    this.change((m) => ({ ...m, tokens }));
    if (this.begun) return; // the cost of the prompt was recorded with the first part of the answer
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const miss = chunk.kvik?.cache?.[0]?.miss;
    const cost = { cached, computed: usage.prompt_tokens - cached, miss: miss?.reason ?? null };
    changeMessage(this.chat, this.index - 1, (m) => ({ ...m, cost }));
  }

  private change(change: (message: Message) => Message): void {
    changeMessage(this.chat, this.index, change);
  }
}
