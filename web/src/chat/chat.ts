// The part of an answer's usage that concerns the prompt.
export interface PromptCost {
  cached: number;
  computed: number;
  miss: string | null; // reason why no more tokens were cached
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: string; // JSON, possibly incomplete while it is streamed
}

export interface Message {
  role: "user" | "assistant" | "tool";
  text: string;
  reasoning?: string;
  calls?: ToolCall[]; // tool calls of an assistant message
  answers?: ToolCall; // for a tool message: the call whose result it is
  cost?: PromptCost; // of the whole prompt that ended with this message
  ttftMs?: number;
  itlMs?: number; // mean
  tokens?: number;
  end?: "stop" | "length" | "stopped" | "error";
  error?: string;
}

export interface Chat {
  id: number;
  title?: string | undefined; // given by the user
  messages: Message[];
}
