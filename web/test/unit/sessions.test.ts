import assert from "node:assert/strict";
import { test } from "node:test";
import { causesText, readSessions } from "../../src/sessions/session_list";

const entry = (id: string, more: object = {}) => ({
  id, client: "none", requests: 1, prompt_tokens: 10, reused_tokens: 4, restored_tokens: 0, lost_tokens: 0, lost_to: {}, last_used: 5, ...more,
});

test("sessions are read with the last used first", () => {
  const sessions = readSessions({ sessions: [entry("a"), entry("b", { last_used: 7 }), entry("c")] });
  assert.deepEqual(sessions.map((s) => s.id), ["b", "a", "c"]);
  assert.deepEqual([sessions[0]!.promptTokens, sessions[0]!.reusedTokens, sessions[0]!.lastUsed], [10, 4, 7]);
  assert.deepEqual(readSessions({}), []);
});

test("causes of losses are in words, the largest first", () => {
  const [session] = readSessions({ sessions: [entry("a", { lost_to: { date: 3, tier_failed: 50, diverged: 9 } })] });
  assert.equal(causesText(session!), "tier failed, changed text, a date");
});
