import assert from "node:assert/strict";
import { test } from "node:test";
import { readChats } from "../../src/chat/stored_chats";

const good = { id: 1, messages: [{ role: "user", text: "a" }, { role: "assistant", text: "b", end: "stop", ttftMs: 3 }] };

test("chats are read as they were written", () => {
  const read = readChats(JSON.stringify({ chats: [good], current: 1 }));
  assert.deepEqual(read, { chats: [good], current: 1, unreadable: [] });
});

test("a chat that cannot be read does not take the others with it", () => {
  const bad: unknown[] = [
    null, 3, "x", [], {}, { id: "1", messages: [] }, { id: 2 }, { id: 2, messages: {} }, { id: 2, messages: [null] },
    { id: 2, messages: [{ role: "user" }] }, { id: 2, messages: [{ role: "user", text: 3 }] },
    { id: 2, messages: [{ role: "king", text: "a" }] }, { id: 2, messages: [{ role: "assistant", text: "a", calls: [{ name: 3 }] }] },
    { id: 2, messages: [{ role: "tool", text: "a" }] }, { id: 1, messages: [] },
  ];
  const read = readChats(JSON.stringify({ chats: [good, ...bad], current: 1 }));
  assert.deepEqual(read.chats, [good]);
  assert.equal(read.unreadable.length, bad.length);
  assert.deepEqual(read.unreadable.map((text) => JSON.parse(text) as unknown), bad);
});

test("what is no JSON is kept whole", () => {
  for (const text of ["{", "", "[]", "null", "3", '{"chats": 3}']) {
    assert.deepEqual(readChats(text), { chats: [], current: null, unreadable: [text] });
  }
  const deep = `{"chats":[${"[".repeat(100_000)}${"]".repeat(100_000)}]}`;
  assert.equal(readChats(deep).unreadable.length, 1);
});

test("figures of another type are left out", () => {
  const read = readChats(JSON.stringify({ chats: [{ id: 1, messages: [
    { role: "assistant", text: "a", ttftMs: "soon", tokens: null, cost: { cached: "x" }, end: "never", reasoning: 3, error: {} },
  ] }] }));
  assert.deepEqual(read.chats, [{ id: 1, messages: [{ role: "assistant", text: "a", end: "stopped" }] }]);
});

test("reasoning that an earlier version stored is read", () => {
  const read = readChats(JSON.stringify({ chats: [{ id: 1, messages: [{ role: "assistant", text: "a", thought: "b", end: "stop" }] }] }));
  assert.deepEqual(read.chats, [{ id: 1, messages: [{ role: "assistant", text: "a", reasoning: "b", end: "stop" }] }]);
});
