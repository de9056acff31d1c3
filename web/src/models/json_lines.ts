import { readText } from "../text_chunks";

// Returns complete lines, and the rest of the text.
export function splitLines(text: string): { lines: string[]; rest: string } {
  const lines = text.split("\n");
  const rest = lines.pop()!;
  return { lines: lines.filter((line) => line.trim() !== ""), rest };
}

// Reads one JSON value for each line.
export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown> {
  let waiting = "";
  for await (const text of readText(body)) {
    const { lines, rest } = splitLines(waiting + text);
    waiting = rest;
    for (const line of lines) yield JSON.parse(line) as unknown;
  }
}
