import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { createStore, useStore } from "./store";

const tooltipStore = createStore<{ text: string; anchor: DOMRect | null }>({ text: "", anchor: null });

const hide = () => tooltipStore.set({ text: "", anchor: null });

// Explanations of the terms on the page.
export const kTerms = {
  ttft: "Time to first token: from sending a request to the first token of its answer. Most of it is the prefill of the prompt tokens that are not cached.",
  itl: "Inter-token latency: the time from one token of an answer to the next.",
  p50: "Median: half of the values are below it.",
  p99: "99th percentile: 99 of 100 values are below it. It shows the slow cases that the median hides.",
  page: "The KV cache stores keys and values in pages of 32 tokens. Prompts with a common prefix share its pages.",
  hitRate: "Share of prompt tokens found in the prefix cache. They are not computed again.",
  decode: "Generated tokens per second, over all running sequences, while the engine generates.",
  sequence: "An answer being generated, with its prompt. A request for several choices has several sequences.",
  step: "One forward pass of the model over a batch: the next token of every decoding sequence, and a chunk of waiting prompts (prefill).",
  kvMemory: "Memory reserved for keys and values (--kv-memory).",
  tokenRate: "Prefill computes prompts, decode generates answers. Average of each second.",
  speed: "Generated tokens per second: 1 second divided by ITL.",
  maxTokens: "Maximum length of an answer. A truncated answer can be continued.",
  temperature: "0 always picks the most likely token. Higher values make answers more varied.",
  topP: "Sampling is limited to the most likely tokens whose probabilities add up to this value.",
  seed: "The same seed and settings give the same answer.",
} as const;

export type TermName = keyof typeof kTerms;

// A word with an explanation, shown on hover, focus and tap.
export function Term({ of, children }: { of: TermName | { text: string }; children: ComponentChildren }) {
  const text = typeof of === "string" ? kTerms[of] : of.text;
  const show = (e: { currentTarget: Element }) => tooltipStore.set({ text, anchor: e.currentTarget.getBoundingClientRect() });
  return (
    <button type="button" class="term" onMouseEnter={show} onFocus={show} onClick={show} onMouseLeave={hide} onBlur={hide}>
      {children}
      <span class="hidden">: {text}</span>
    </button>
  );
}

const kGap = 8;

// The current explanation, near its word and inside the window.
export function Tooltip() {
  const { text, anchor } = useStore(tooltipStore);
  const box = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState({ left: 0, top: 0 });
  useEffect(() => {
    const onKeyDown = (e: KeyboardEvent) => {
      if (e.key === "Escape") hide();
    };
    window.addEventListener("keydown", onKeyDown);
    window.addEventListener("scroll", hide, true);
    return () => {
      window.removeEventListener("keydown", onKeyDown);
      window.removeEventListener("scroll", hide, true);
    };
  }, []);
  useLayoutEffect(() => {
    if (!anchor || !box.current) return;
    const { width, height } = box.current.getBoundingClientRect();
    const left = Math.max(kGap, Math.min(anchor.left, window.innerWidth - width - kGap));
    const below = anchor.bottom + kGap;
    setPlace({ left, top: below + height > window.innerHeight ? anchor.top - height - kGap : below });
  }, [anchor]);
  if (!anchor) return null;
  return <div ref={box} class="tooltip" role="tooltip" style={{ left: `${place.left}px`, top: `${place.top}px` }}>{text}</div>;
}
