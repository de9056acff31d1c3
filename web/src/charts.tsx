import { Chart } from "./chart";
import { bytes, count, milliseconds } from "./format";
import { liveStore } from "./live";
import { MemoryKinds } from "./memory_kinds";
import { useStore } from "./store";
import { Term } from "./tooltip";

const rate = (v: number) => count(Math.round(v));
const share = (v: number) => `${v.toFixed(0)}%`;

export function Charts() {
  const { history: h } = useStore(liveStore);
  return (
    <section class="charts" aria-label="Charts">
      <Chart title={<Term of="ttft">TTFT</Term>} name="TTFT" t={h.t} format={milliseconds} series={[
        { label: "p50", term: "p50", color: "accent", values: h.ttftP50 },
        { label: "p99", term: "p99", color: "shared", dash: [4, 3], values: h.ttftP99 },
      ]} />
      <Chart title={<Term of="itl">ITL</Term>} name="ITL" t={h.t} format={milliseconds} series={[
        { label: "p50", term: "p50", color: "accent", values: h.itlP50 },
        { label: "p99", term: "p99", color: "shared", dash: [4, 3], values: h.itlP99 },
      ]} />
      <Chart title={<Term of="tokenRate">Tokens per second</Term>} name="Tokens per second" t={h.t} format={rate} series={[
        { label: "decode", color: "sealed", values: h.decodeTokS },
        { label: "prefill", color: "leased", values: h.prefillTokS },
      ]} />
      <Chart title={<Term of="hitRate">Prefix cache hit rate</Term>} name="Prefix cache hit rate" t={h.t} format={share} series={[
        { label: "hit rate", color: "cached", fill: true, values: h.hitRate },
      ]} />
      <Chart title={<Term of="kvMemory">KV memory</Term>} name="KV memory" t={h.t} format={bytes} series={[
        { label: "cached", color: "cached", values: h.cached },
        { label: "in use", color: "sealed", values: h.sealed },
        { label: "being filled", color: "leased", values: h.leased },
      ]} />
      <MemoryKinds />
    </section>
  );
}
