// Returns the server's sentence. Routes of Ollama's API answer {"error": TEXT}, others {"error": {"message": TEXT}}.
export async function errorOf(response: Response): Promise<Error> {
  const answer = (await response.json().catch(() => null)) as unknown;
  return new Error(sentenceOf(answer) ?? `the server answered ${response.status}`);
}

export function sentenceOf(answer: unknown): string | null {
  const error = (answer as { error?: unknown } | null)?.error;
  if (typeof error === "string") return error;
  const message = (error as { message?: unknown } | null | undefined)?.message;
  return typeof message === "string" ? message : null;
}

// Returns the text for a request that failed.
export function unreachable(error: unknown): string {
  return error instanceof TypeError ? "the server cannot be reached" : (error as Error).message;
}
