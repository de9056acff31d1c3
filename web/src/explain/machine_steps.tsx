import { bytes, count, percent } from "../format";
import { type Cost, fewerBytesVerdict } from "./claims";
import { Bars } from "./bars";
import { Plot } from "./plot";
import type { Bench, Figures, Spread } from "./report";
import { Step } from "./step";
import { plain, time } from "./ticks";

export type Stepper = () => number;

const range = (s: Spread, format: (v: number) => string) => `${format(s.min)} … ${format(s.max)}`;
const rate = (v: number) => `${count(Math.round(v))} tok/s`;
const times = (v: number) => `${v >= 10 ? v.toFixed(0) : v.toFixed(1)}`;
const share = (v: number) => `${Math.round(100 * v)}%`;

function find(figures: Figures, test: string): Bench {
  return figures.bench.find((b) => b.test === test)!;
}

function Limits({ figures, next }: { figures: Figures; next: Stepper }) {
  const prefill = find(figures, "prefill");
  const decode = find(figures, "decode");
  const { machine, rows } = figures;
  const isCached = rows.some((row) => row.memory_share > 1) || decode.memory_share > 1;
  const isTypical = prefill.arithmetic_share > prefill.memory_share && decode.memory_share > decode.arithmetic_share;
  const line = (key: "arithmetic_share" | "memory_share") => rows.map((r): [number, number] => [r.tokens, 100 * r[key]]);
  return (
    <Step number={next()} title="Prefill and decode against the limits of this machine">
      <p>
        This machine reads at most {(machine.read_bytes_per_s / 1e9).toFixed(1)} GB/s and multiplies at most{" "}
        {count(Math.round(machine.int8_ops_per_s / 1e9))} G int8 operations a second, with {count(machine.threads)} threads. A
        prefill uses each weight for many tokens, a decode once for each time that it is read.{" "}
        {isTypical
          ? "Prefill is therefore compute-bound, and decode is memory-bound."
          : "Prefill is therefore usually compute-bound and decode memory-bound; the shares below show that this is not the case here."}
        {isCached && " A share above 100% means that the weights fit in the processor's caches, which are faster than its memory."}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Prefill and decode">
        <table>
          <thead><tr><th scope="col">test</th><th scope="col">speed (min … max of 3)</th><th scope="col">of peak arithmetic</th><th scope="col">of peak memory bandwidth</th></tr></thead>
          <tbody>
            {[prefill, decode].map((b) => (
              <tr>
                <th scope="row">{b.test}, {count(b.tokens)} tokens</th>
                <td><b>{rate(b.tok_s)}</b> <span class="muted">({rate(b.tok_s_min)} … {rate(b.tok_s_max)})</span></td>
                <td>{percent(b.arithmetic_share)}</td><td>{percent(b.memory_share)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Plot title="Shares of both limits, by tokens per pass" x={{ label: "tokens per pass", format: count, base: 2 }}
        y={{ label: "share of the limit", format: (v) => `${v}%` }}
        summary={`with one token ${share(rows[0]!.memory_share)} of the memory limit, with ${rows.at(-1)!.tokens} ${share(rows.at(-1)!.arithmetic_share)} of the arithmetic limit`}
        lines={[
          { name: "of the arithmetic limit", color: "leased", dash: "7 3", marks: "square", points: line("arithmetic_share") },
          { name: "of the memory limit", color: "sealed", marks: "circle", points: line("memory_share") },
        ]} />
    </Step>
  );
}

function InputAndOutput({ figures, next }: { figures: Figures; next: Stepper }) {
  const prefill = find(figures, "prefill");
  const decode = find(figures, "decode");
  return (
    <Step number={next()} title="Why input is cheaper than output">
      <p>
        The weights ({bytes(figures.memory.weights_bytes)}) are read once for a pass, whatever the number of tokens in it. A
        prompt of {count(prefill.tokens)} tokens shares this read; each token of an answer needs one of its own. Here a token of
        input took {time(1000 / prefill.tok_s)} and a token of output {time(1000 / decode.tok_s)}:{" "}
        <b>{times(prefill.tok_s / decode.tok_s)} times as long</b>.{" "}
        {prefill.tok_s > 1.2 * decode.tok_s
          ? "This is why providers charge more for output tokens, and less for cached input tokens."
          : "With larger models the difference is large, which is why providers charge more for output tokens."}
      </p>
      <Plot title="Milliseconds per token, by tokens per pass" x={{ label: "tokens per pass", format: count, base: 2 }}
        y={{ label: "milliseconds per token", format: plain, base: 10 }}
        summary={`${time(figures.rows[0]!.ms)} for one, ${time(figures.rows.at(-1)!.ms / figures.rows.at(-1)!.tokens)} in a pass of ${figures.rows.at(-1)!.tokens}`}
        lines={[{ name: "measured, median of 3", color: "accent", marks: "circle", points: figures.rows.map((r) => [r.tokens, r.ms / r.tokens]) }]} />
    </Step>
  );
}

function Memory({ figures, next }: { figures: Figures; next: Stepper }) {
  const { memory } = figures;
  const left = Math.max(0, memory.machine_bytes - memory.weights_bytes - memory.buffers_bytes);
  return (
    <Step number={next()} title="KV memory by type and context, on this machine">
      <p>
        This machine has {bytes(memory.machine_bytes)} ({bytes(memory.available_bytes)} free when this was written). The weights take{" "}
        {bytes(memory.weights_bytes)}, the buffers {bytes(memory.buffers_bytes)}; {bytes(left)} are left for pages. The sizes are
        those that the engine allocates.
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="KV memory by type and context">
        <table>
          <thead>
            <tr>
              <th scope="col">KV type</th><th scope="col">per token</th>
              {memory.contexts.map((n) => <th scope="col">{count(n)} tokens</th>)}
              <th scope="col">users of {count(memory.contexts.at(-1)!)}</th><th scope="col">longest context, one user</th>
            </tr>
          </thead>
          <tbody>
            {memory.types.map((row) => (
              <tr>
                <th scope="row">{row.type}{row.type === figures.geometry.kv_type && " (this report)"}</th><td>{bytes(row.bytes_per_token)}</td>
                {row.bytes.map((b) => <td>{bytes(b)}</td>)}
                <td>{count(row.users_that_fit)}</td><td>{count(row.longest_context)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Step>
  );
}

const kShapes: Record<string, string> = {
  "as it is": "this model's heads and windows",
  "a KV head for each query head": "no GQA: a KV head per query head",
  "one KV head": "MQA: one KV head for all",
  "a window": "a sliding window",
};

// States what the bars show about bytes and time, including contradictions of the rule.
function BytesAndTime({ costs }: { costs: Cost[] }) {
  const { kind, against } = fewerBytesVerdict(costs);
  const counterexample = against && (
    <>
      {against.fewer.name} read {bytes(against.fewer.bytes)} and took {time(against.fewer.ms)}, {against.more.name}{" "}
      {bytes(against.more.bytes)} and {time(against.more.ms)}
    </>
  );
  if (kind === "confirmed") return <b>Fewer bytes took less time here.</b>;
  if (kind === "contradicted") return <b>Fewer bytes did not take less time here: {counterexample}.</b>;
  if (counterexample) return <b>Fewer bytes took less time here in most cases, but not in all: {counterexample}.</b>;
  return <b>The times are too close to compare bytes and time here.</b>;
}

function Savings({ figures, next }: { figures: Figures; next: Stepper }) {
  const { types, shapes, sharing, geometry, depth } = figures;
  const asItIs = shapes[0]!;
  const ms = time;
  const type = (name: string) => types.find((t) => t.type === name)!;
  const saved = type("f32").ms.min - type("int8").ms.min;
  const shapeCosts = shapes.map((s) => ({ name: kShapes[s.name] ?? s.name, bytes: s.kv_bytes, ms: s.ms.min }));
  const typeCosts = types.map((t) => ({ name: `${t.type} pages`, bytes: t.bytes_per_token * depth, ms: t.ms.min }));
  return (
    <Step number={next()} title="Further savings">
      <p>
        Decode reads all K and V of the context for each token, and fewer bytes leave room for more users. Whether they are
        also faster was measured here, with {count(depth)} tokens of context. A bar is the minimum time of the repeats, its
        whisker ends at the maximum (for attention, the 5th and 95th percentile).
      </p>
      <Bars title="GQA and sliding window" note={`the attention of one token in all ${geometry.layers} layers, ${geometry.kv_type} pages`}
        label="milliseconds per token, attention only" format={ms}
        bars={shapes.map((s) => ({
          name: kShapes[s.name] ?? s.name, value: s.ms, color: s === asItIs ? "sealed" : "cached",
          note: `${bytes(s.kv_bytes)}${s.window ? `, ${count(s.window)} tokens` : `, ${s.kv_heads} KV heads`}`,
        }))} />
      <p class="small muted">
        This model has {count(geometry.heads)} query heads on {count(geometry.kv_heads)} KV heads
        {geometry.windowed_layers > 0 ? `, and a window in ${geometry.windowed_layers} of ${geometry.layers} layers` : " and no window"}. The
        other shapes use pages with the same random values; a loss of quality is not measured
        here. <BytesAndTime costs={shapeCosts} />
      </p>
      <Bars title="KV types" note="a whole token of this model" label="milliseconds per token" format={ms}
        bars={types.map((t) => ({
          name: t.type, value: t.ms, color: t.type === geometry.kv_type ? "sealed" : "cached",
          note: `${bytes(t.bytes_per_token * depth)} of K and V`,
        }))} />
      <p class="small muted">
        int8 pages take {times(type("f32").bytes_per_token / type("int8").bytes_per_token)} times less memory than f32, and a token{" "}
        {saved >= 0 ? `${time(saved)} less` : `${time(-saved)} more`} (f32: {range(type("f32").ms, ms)}; int8: {range(type("int8").ms, ms)}).{" "}
        <BytesAndTime costs={typeCosts} />
      </p>
      <Bars title="Shared prefix" note={`two prompts with ${count(sharing.shared)} common and ${count(sharing.own)} different tokens`}
        label="milliseconds to the first token" format={ms}
        bars={[
          { name: "the first user", value: sharing.first_ttft_ms, color: "leased", note: `${count(sharing.shared + sharing.own)} tokens computed` },
          { name: "the second user", value: sharing.second_ttft_ms, color: "cached", note: `${count(sharing.found)} tokens cached` },
        ]} />
    </Step>
  );
}

// The steps that only `kvik explain` measures.
export function MachineSteps({ figures, next }: { figures: Figures; next: Stepper }) {
  return (
    <>
      <Limits figures={figures} next={next} />
      <InputAndOutput figures={figures} next={next} />
      <Memory figures={figures} next={next} />
      <Savings figures={figures} next={next} />
    </>
  );
}
