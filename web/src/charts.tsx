import { Chart } from "./chart";
import { bytes, count, milliseconds } from "./format";
import { liveStore } from "./live";
import { MemoryKinds } from "./memory_kinds";
import { useStore } from "./store";

const rate = (v: number) => count(Math.round(v));
const share = (v: number) => `${v.toFixed(0)}%`;

export function Charts() {
  const { history: h } = useStore(liveStore);
  return (
    <section class="charts" aria-label="Charts">
      <Chart title="TTFT" t={h.t} format={milliseconds} series={[
        { label: "p50", color: "accent", values: h.ttftP50 },
        { label: "p99", color: "shared", dash: [4, 3], values: h.ttftP99 },
      ]} />
      <Chart title="ITL" t={h.t} format={milliseconds} series={[
        { label: "p50", color: "accent", values: h.itlP50 },
        { label: "p99", color: "shared", dash: [4, 3], values: h.itlP99 },
      ]} />
      <Chart title="Tokens per second" t={h.t} format={rate} series={[
        { label: "decode", color: "sealed", values: h.decodeTokS },
        { label: "prefill", color: "leased", values: h.prefillTokS },
      ]} />
      <Chart title="Hit rate of prompt tokens" t={h.t} format={share} series={[
        { label: "found", color: "cached", fill: true, values: h.hitRate },
      ]} />
      <Chart title="KV memory" t={h.t} format={bytes} series={[
        { label: "kept", color: "cached", values: h.cached },
        { label: "in use", color: "sealed", values: h.sealed },
        { label: "being filled", color: "leased", values: h.leased },
      ]} />
      <MemoryKinds />
    </section>
  );
}
