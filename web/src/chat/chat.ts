// The prompt's part of an answer's usage.
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
  title?: string | undefined; // given by the user
  messages: Message[];
}
