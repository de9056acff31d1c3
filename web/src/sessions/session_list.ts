// One session of GET /kvik/sessions; docs/reference/http_api.md documents the fields.
export interface Session {
  id: string;
  client: string;
  requests: number;
  promptTokens: number;
  reusedTokens: number;
  restoredTokens: number;
  lostTokens: number;
  lostTo: [cause: string, tokens: number][]; // most tokens first
  lastUsed: number; // Unix time in seconds
}

interface SessionJson {
  id: string;
  client: string;
  requests: number;
  prompt_tokens: number;
  reused_tokens: number;
  restored_tokens: number;
  lost_tokens: number;
  lost_to: Record<string, number>;
  last_used: number;
}

// Returns the sessions, the last used first.
export function readSessions(json: unknown): Session[] {
  const { sessions = [] } = json as { sessions?: SessionJson[] };
  const all = sessions.map((s) => ({
    id: s.id, client: s.client, requests: s.requests, promptTokens: s.prompt_tokens, reusedTokens: s.reused_tokens,
    restoredTokens: s.restored_tokens, lostTokens: s.lost_tokens, lastUsed: s.last_used,
    lostTo: Object.entries(s.lost_to).sort((a, b) => b[1] - a[1]),
  }));
  return all.sort((a, b) => b.lastUsed - a.lastUsed); // a stable sort: equal times stay in the server's order
}

const kCauses: Record<string, string> = {
  diverged: "changed text", evicted: "eviction", reasoning: "reasoning left out", date: "a date", id: "an id",
  token_count: "a token count", reminder: "a reminder", tool: "a tool", tool_order: "the order of tools", git_status: "the state of the repository",
  working_directory: "the folder", environment: "the environment", instructions: "instructions", no_snapshot: "no snapshot",
};

// Returns what tokens were lost to, in words.
export function causesText(session: Session): string {
  return session.lostTo.map(([cause]) => kCauses[cause] ?? cause.replaceAll("_", " ")).join(", ");
}
