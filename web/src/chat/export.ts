import type { Chat, Message } from "./chat";
import { titleOf } from "./chats";

const kSpeakers: Record<Message["role"], string> = { user: "You", assistant: "Assistant", tool: "Tool" };

// Returns a name that is valid in every file system.
export function fileName(chat: Chat, suffix: string): string {
  const words = titleOf(chat).normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60).toLowerCase();
  return `${words || "chat"}.${suffix}`;
}

// Encloses the text in a fence longer than any fence in it.
function fenced(text: string): string {
  let longest = 2;
  for (const run of text.match(/`{3,}/g) ?? []) longest = Math.max(longest, run.length);
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

function section(message: Message): string {
  const parts = [`## ${kSpeakers[message.role]}${message.answers ? ` ${message.answers.name}` : ""}`];
  if (message.reasoning) parts.push(`<details><summary>Reasoning</summary>\n\n${message.reasoning}\n\n</details>`);
  if (message.text) parts.push(message.role === "tool" ? fenced(message.text) : message.text);
  for (const call of message.calls ?? []) parts.push(`Calls \`${call.name}\`:\n\n${fenced(call.arguments)}`);
  return parts.join("\n\n");
}

export function asMarkdown(chat: Chat, model: string): string {
  const head = `# ${titleOf(chat)}${model ? `\n\nModel: ${model}` : ""}`;
  return `${[head, ...chat.messages.map(section)].join("\n\n")}\n`;
}

// Returns the messages in the form of requests, with the page's measurements.
export function asJson(chat: Chat): string {
  const messages = chat.messages.map(({ role, text, reasoning, calls, answers, ...figures }) => ({
    role,
    content: text,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(calls ? { tool_calls: calls.map(({ id, name, arguments: given }) => ({ id, type: "function", function: { name, arguments: given } })) } : {}),
    ...(answers ? { tool_call_id: answers.id } : {}),
    kvik: figures,
  }));
  return `${JSON.stringify({ title: titleOf(chat), messages }, null, 2)}\n`;
}
