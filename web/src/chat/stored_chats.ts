import { storage } from "../storage";
import type { Chat, Message, PromptCost, ToolCall } from "./chat";

// Chats stored in this browser. A chat that cannot be read, because another version of the page wrote it or because
// it was modified, is moved to a separate entry: it cannot break the page, and it is not lost.

const kChats = "kvik.chats";
const kApart = "kvik.chats.unreadable";
const kMostCharacters = 2_000_000; // of all stored chats: a browser gives a site about five million

export interface ReadChats {
  chats: Chat[];
  current: number | null; // id of the chat that was shown last
  unreadable: string[]; // JSON, or the whole stored text if it is not JSON
}

type Fields = Record<string, unknown>;

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

function readCall(value: unknown): ToolCall | null {
  if (!isObject(value)) return null;
  const { id, name, arguments: given } = value;
  return isText(id) && isText(name) && isText(given) ? { id, name, arguments: given } : null;
}

function readCost(value: unknown): PromptCost | undefined {
  if (!isObject(value) || !isNumber(value["cached"]) || !isNumber(value["computed"])) return undefined;
  return { cached: value["cached"], computed: value["computed"], miss: isText(value["miss"]) ? value["miss"] : null };
}

const kEnds = ["stop", "length", "stopped", "error"] as const;

// Returns null if the value is not a message. Invalid figures are ignored.
function readMessage(value: unknown): Message | null {
  if (!isObject(value) || !isText(value["text"])) return null;
  const role = (["user", "assistant", "tool"] as const).find((known) => known === value["role"]);
  if (!role) return null;
  const message: Message = { role, text: value["text"] };
  if (value["calls"] !== undefined) {
    const calls = Array.isArray(value["calls"]) ? value["calls"].map(readCall) : [null];
    if (calls.includes(null)) return null;
    message.calls = calls as ToolCall[];
  }
  const answers = value["answers"] === undefined ? undefined : readCall(value["answers"]);
  if (answers === null || (role === "tool" && !answers)) return null;
  if (answers) message.answers = answers;
  const reasoning = value["reasoning"] ?? value["thought"]; // the second is the name in earlier versions
  if (isText(reasoning)) message.reasoning = reasoning;
  if (isText(value["error"])) message.error = value["error"];
  const cost = readCost(value["cost"]);
  if (cost) message.cost = cost;
  for (const name of ["ttftMs", "itlMs", "tokens"] as const) {
    const figure = value[name];
    if (isNumber(figure)) message[name] = figure;
  }
  const end = kEnds.find((known) => known === value["end"]);
  // An answer that was being streamed when the page was closed ended there.
  if (end) message.end = end;
  else if (role === "assistant") message.end = "stopped";
  return message;
}

function readChat(value: unknown): Chat | null {
  if (!isObject(value) || !Number.isSafeInteger(value["id"]) || !Array.isArray(value["messages"])) return null;
  const messages = value["messages"].map(readMessage);
  if (messages.includes(null)) return null;
  const chat: Chat = { id: value["id"] as number, messages: messages as Message[] };
  if (isText(value["title"]) && value["title"].trim()) chat.title = value["title"];
  return chat;
}

// Returns null if the value is nested too deeply.
function jsonOf(value: unknown): string | null {
  try {
    return JSON.stringify(value);
  } catch {
    return null;
  }
}

export function readChats(stored: string | null): ReadChats {
  const none: ReadChats = { chats: [], current: null, unreadable: [] };
  if (stored === null) return none;
  let value: unknown;
  try {
    value = JSON.parse(stored);
  } catch {
    return { ...none, unreadable: [stored] };
  }
  if (!isObject(value) || !Array.isArray(value["chats"])) return { ...none, unreadable: [stored] };
  const out: ReadChats = { ...none, current: isNumber(value["current"]) ? value["current"] : null };
  const ids = new Set<number>();
  for (const item of value["chats"] as unknown[]) {
    const chat = readChat(item);
    if (chat && !ids.has(chat.id)) out.chats.push(chat);
    else out.unreadable.push(jsonOf(item) ?? stored);
    if (chat) ids.add(chat.id);
  }
  return out;
}

function apart(): string[] {
  try {
    const list = JSON.parse(storage.get(kApart) ?? "[]") as unknown;
    return Array.isArray(list) ? list.filter(isText) : [];
  } catch {
    return [storage.get(kApart)!];
  }
}

// Returns the stored chats, including unreadable ones, which are moved to their entry.
export function loadChats(): ReadChats {
  const read = readChats(storage.get(kChats));
  const known = apart();
  if (read.unreadable.length === 0) return { ...read, unreadable: known };
  const unreadable = [...known, ...read.unreadable];
  storage.remove(kChats); // makes room
  storage.set(kApart, JSON.stringify(unreadable));
  storeChats(read.chats, read.current ?? 0);
  return { ...read, unreadable };
}

// Moves all stored chats aside, because the page cannot show them.
export function setAllApart(): void {
  const stored = storage.get(kChats);
  if (stored === null) return;
  const unreadable = [...apart(), stored];
  storage.remove(kChats);
  storage.set(kApart, JSON.stringify(unreadable));
}

export function forgetUnreadable(): void {
  storage.remove(kApart);
}

// Stores the newest chats that fit.
export function storeChats(chats: Chat[], current: number): void {
  let room = kMostCharacters;
  const kept = chats.filter((chat) => chat.messages.length > 0).reverse().filter((chat) => {
    room -= JSON.stringify(chat).length;
    return room >= 0;
  });
  const isKept = kept.length > 0 && storage.set(kChats, JSON.stringify({ chats: kept.reverse(), current }));
  if (!isKept) storage.remove(kChats);
}
