// A model that generates no text: an encoder, which makes embeddings or scores pairs of texts.
export interface Encoder {
  name: string;
  maxTokens: number; // of a text; 0: not known
  dimensions: number; // of an embedding; 0: not known
  ranks: boolean; // whether it scores pairs of texts
}

// Reads the answer of GET /props. Returns null for a model that is no encoder.
export function readEncoder(name: string, answer: unknown): Encoder | null {
  const props = (answer ?? {}) as {
    capabilities?: unknown; n_embd?: unknown; default_generation_settings?: { n_ctx?: unknown };
  };
  const { capabilities } = props;
  if (!Array.isArray(capabilities) || !capabilities.includes("embedding")) return null;
  const number = (value: unknown) => (typeof value === "number" ? value : 0);
  return {
    name,
    maxTokens: number(props.default_generation_settings?.n_ctx),
    dimensions: number(props.n_embd),
    ranks: capabilities.includes("rerank"),
  };
}

// Returns the routes that such a model answers, each with what it is for.
export function routesOf(encoder: Encoder): [route: string, use: string][] {
  if (encoder.ranks)
    return [
      ["POST /v1/rerank", "documents in the order of their scores (Cohere, Jina; also /rerank of TEI)"],
      ["POST /v1/score", "the score of each pair of texts (vLLM; also /score)"],
    ];
  return [
    ["POST /v1/embeddings", "embeddings of texts (OpenAI)"],
    ["POST /api/embed", "embeddings of texts (Ollama)"],
  ];
}

// Returns a shell command that tries the model.
export function exampleOf(encoder: Encoder, origin: string): string {
  const [route, body] = encoder.ranks
    ? ["/v1/rerank", { model: encoder.name, query: "What is the sea?", documents: ["Salt water.", "A chair."] }]
    : ["/v1/embeddings", { model: encoder.name, input: "Tell me of the sea." }];
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl ${origin}${route} -H 'Content-Type: application/json' -d '${quoted}'`;
}
