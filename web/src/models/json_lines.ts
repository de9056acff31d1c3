// Returns complete lines, and the rest of the text.
export function splitLines(text: string): { lines: string[]; rest: string } {
  const lines = text.split("\n");
  const rest = lines.pop()!;
  return { lines: lines.filter((line) => line.trim() !== ""), rest };
}

// Reads one JSON value for each line.
export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let waiting = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const { lines, rest } = splitLines(waiting + decoder.decode(value, { stream: true }));
      waiting = rest;
      for (const line of lines) yield JSON.parse(line) as unknown;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
