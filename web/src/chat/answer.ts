import {
  type Chat, type Message, type Settings, type ToolCall,
  changeMessage, chatStore, openCall, readTools,
} from "./chats";
import { askForKey, authorization } from "../key";
import { readEvents } from "../sse";

const kOneReadMs = 0.5;

let running: AbortController | null = null;

export function stop(): void {
  running?.abort();
}

function payload(chat: Chat, settings: Settings): object {
  const messages: object[] = [];
  if (settings.system.trim()) messages.push({ role: "system", content: settings.system });
  messages.push(...chat.messages.map(spoken));
  const tools = readTools(settings.tools);
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
    ...(tools.length > 0 ? { tools } : {}),
  };
}

const asCall = ({ id, name, arguments: given }: ToolCall) => ({ id, type: "function", function: { name, arguments: given } });

// A message as a request has it.
function spoken({ role, text, thought, calls, answers }: Message): object {
  if (role === "tool") return { role, tool_call_id: answers!.id, content: text };
  return {
    role,
    content: text,
    ...(thought ? { reasoning_content: thought } : {}),
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
  error?: { message?: string };
}

// Says something in the chat that is shown: to the model, or as the result of the tool that it called. The
// model goes on when it has all results.
export async function send(text: string): Promise<void> {
  const state = chatStore.get();
  const before = state.chats.find((chat) => chat.id === state.current);
  if (!before || state.isAnswering || !text.trim()) return;
  const call = openCall(before);
  const said: Message = call ? { role: "tool", text, answers: call } : { role: "user", text };
  const asked: Chat = { id: before.id, messages: [...before.messages, said] };
  const isComplete = !openCall(asked);
  const answered: Chat = isComplete ? { ...asked, messages: [...asked.messages, { role: "assistant", text: "" }] } : asked;
  chatStore.set({
    ...state,
    isAnswering: isComplete,
    chats: state.chats.map((chat) => (chat.id === answered.id ? answered : chat)),
  });
  if (isComplete) await answerTo(asked, state.settings);
}

async function answerTo(asked: Chat, settings: Settings): Promise<void> {
  running = new AbortController();
  const answer = new Answer(asked.id, asked.messages.length);
  try {
    await answer.stream(payload(asked, settings), running.signal);
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
  private calls: ToolCall[] = [];
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
    const calls = this.calls.length > 0 ? [...this.calls] : undefined;
    this.change((m) => ({ ...m, text: this.text, thought: this.thought || undefined, calls, ttftMs, itlMs }));
  }

  // True for the chunk that ends the answer.
  private take(chunk: Chunk): boolean {
    const choice = chunk.choices?.[0];
    const { content, reasoning_content: thought, tool_calls: calls = [] } = choice?.delta ?? {};
    if (content || thought || calls.length > 0) {
      const now = performance.now();
      if (now - this.last > kOneReadMs) this.nReads += 1;
      this.last = now;
      this.first ||= now;
      this.nEvents += 1;
      this.text += content ?? "";
      this.thought += thought ?? "";
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
