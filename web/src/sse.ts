import { readText } from "./text_chunks";

// Reads server-sent events from a response body. EventSource cannot be used, because it cannot send headers such as
// the API key.
export interface ServerEvent {
  name: string;
  data: string;
}

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  let waiting = "";
  for await (const text of readText(body)) {
    waiting += text;
    for (let end = waiting.indexOf("\n\n"); end >= 0; end = waiting.indexOf("\n\n")) {
      const event = parseEvent(waiting.slice(0, end));
      waiting = waiting.slice(end + 2);
      if (event) yield event;
    }
  }
}

// Returns null for an event that only has comments (a heartbeat).
function parseEvent(text: string): ServerEvent | null {
  let name = "message";
  const data: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  return data.length > 0 ? { name, data: data.join("\n") } : null;
}
