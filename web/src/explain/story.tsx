import { bytes, count } from "../format";
import { growth, isFlat, isSlower, powerOf } from "./claims";
import { MachineSteps, type Stepper } from "./machine_steps";
import { Plot } from "./plot";
import { type Columns, type Report, type Run, type Way, figuresOf, itl, kNames, runOf } from "./report";
import { RowsDrawing } from "./rows_drawing";
import { Step } from "./step";
import { plain, time } from "./ticks";
import { Timeline } from "./timeline";

export const kLines: Record<Way, { color: string; dash?: string; width?: number }> = {
  cold: { color: "sealed" },
  naive: { color: "leased", dash: "7 3" },
  warm: { color: "cached", dash: "2 3" },
};

const signed = (v: number) => v.toFixed(2).replace("-", "−");
const times = (v: number) => `${v >= 10 ? v.toFixed(0) : v.toFixed(1)} times`;

// Plots the known milliseconds of every token, and the fitted power laws if there are any.
export function TokenTimes({ runs }: { runs: (Columns & { way: Way; n_seen?: number[]; fit?: Run["fit"] })[] }) {
  const lines = runs.map((run) => ({
    name: kNames[run.way], ...kLines[run.way],
    points: run.ms.map((ms, i): [number, number] => [i + 1, ms]),
  }));
  const fits = runs.flatMap((run) => {
    const { n_seen: seen } = run;
    const fit = powerOf(run.fit);
    if (!fit || !seen || run.way === "warm") return [];
    return [{
      name: `fitted: tokens seen to the power ${signed(fit.exponent)}`, color: "text", dash: run.way === "naive" ? "1 4" : "1 2", width: 1.5,
      points: seen.slice(1).map((n, i): [number, number] => [i + 2, fit.factor * n ** fit.exponent]),
    }];
  });
  return (
    <Plot title="Milliseconds of every token" lines={[...lines, ...fits]}
      summary={runs.filter((r) => r.ms.length > 1).map((r) => `${kNames[r.way]}: ${time(itl(r))} a token`).join("; ")}
      x={{ label: "token of the answer", format: count }} y={{ label: "milliseconds", format: plain }} />
  );
}

function Pieces({ report }: { report: Report }) {
  const { prompt, answer } = report;
  const shown = prompt.pieces.slice(0, 40);
  return (
    <p class="pieces" aria-label="The tokens of the prompt, then those of the answer">
      {shown.map((piece) => <span class="piece">{piece.replaceAll("\n", "⏎") || "∅"}</span>)}
      {prompt.tokens > shown.length && <span class="muted"> and {count(prompt.tokens - shown.length)} more </span>}
      {answer.pieces.slice(0, 12).map((piece) => <span class="piece answer">{piece.replaceAll("\n", "⏎") || "∅"}</span>)}
      <span class="muted">…</span>
    </p>
  );
}

function Tiles({ report }: { report: Report }) {
  const cold = runOf(report, "cold");
  const naive = runOf(report, "naive");
  const { bits } = report;
  const tiles: [string, string, string][] = [
    ["A token with the cache", time(itl(cold)), "median inter-token latency"],
    ["A token without the cache", time(itl(naive)), `median; ${time(naive.ms.at(-1)!)} for the last one`],
    ["Rows of K and V saved", count(naive.kv_rows.at(-1)! - cold.kv_rows.at(-1)!), `of ${count(naive.kv_rows.at(-1)!)}, counted by the engine`],
    ["Bits that differ", count(bits.different), `${count(bits.compared)} logits compared byte for byte`],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([name, value, note]) => <div><dt>{name}</dt><dd>{value}</dd><dd class="tile-note">{note}</dd></div>)}
    </dl>
  );
}

// States the exponent if a power law explains the times, otherwise the times themselves.
function Exponents({ run, what }: { run: Run; what: string }) {
  if (!run.fit) return null;
  const { first, last } = growth(run);
  const fit = powerOf(run.fit);
  const late = powerOf(run.late_fit);
  if (!fit) {
    return (
      <li>
        <b>{what}: no power of n explains the times</b>{" "}
        <span class="muted">
          (R² {run.fit.r_squared.toFixed(2)}, {count(run.fit.points)} tokens): {time(first)} a token in the first quarter of the answer,{" "}
          {time(last)} in the last
        </span>
      </li>
    );
  }
  return (
    <li>
      <b>{what}: n to the power {signed(fit.exponent)} ± {fit.exponent_error.toFixed(2)}</b>{" "}
      <span class="muted">
        (R² {fit.r_squared.toFixed(2)}, {count(fit.points)} tokens, n from {count(Math.round(fit.from))} to {count(Math.round(fit.to))}
        {late && late.exponent_error < 0.1 && `; the second half alone: ${signed(late.exponent)} ± ${late.exponent_error.toFixed(2)}`})
      </span>
    </li>
  );
}

function Generation({ report, next }: { report: Report; next: Stepper }) {
  const cold = runOf(report, "cold");
  const naive = runOf(report, "naive");
  const warm = runOf(report, "warm");
  const n = report.prompt.tokens;
  const steps = cold.ms.length;
  const inMiB = cold.kv_bytes.at(-1)! >= 1 << 20;
  const unit = inMiB ? 1 << 20 : 1 << 10;
  const cumulative = (run: Run) => run.kv_rows.map((rows, i): [number, number] => [i + 1, rows]);
  return (
    <>
      <Step number={next()} title="Prefill with an empty cache">
        <p>
          The prompt is {count(n)} tokens. To predict the next token, every layer needs a key and a value (one row of K and one
          of V) for each of them. Nothing is cached yet, so all {count(n)} rows are computed, in one pass: the first token
          came after {time(cold.ms[0]!)}.
        </p>
        <Pieces report={report} />
      </Step>
      <Step number={next()} title="The cost of recomputing">
        <p>
          The second token needs the rows of {count(n + 1)} tokens. {count(n)} of them were computed in the previous step and have not
          changed: they do not depend on later tokens. Without a cache they are computed again, for every token. That is
          the triangle: {count(naive.kv_rows.at(-1)!)} rows for {count(steps)} tokens. With a cache each row is computed
          once: {count(cold.kv_rows.at(-1)!)}.
        </p>
        <RowsDrawing cold={cold} naive={naive} />
        <Plot title="Rows of K and V computed so far" x={{ label: "token of the answer", format: count }}
          y={{ label: "rows", format: count }}
          summary={`${count(naive.kv_rows.at(-1)!)} without a cache, ${count(cold.kv_rows.at(-1)!)} with`}
          lines={[{ name: kNames.naive, ...kLines.naive, points: cumulative(naive) }, { name: kNames.cold, ...kLines.cold, points: cumulative(cold) }]} />
      </Step>
      <Step number={next()} title="Store, reuse, append">
        <p>
          <b>Store:</b> the rows stay in pages of 32 tokens. <b>Reuse:</b> the next step reads them instead of computing them.{" "}
          <b>Append:</b> it computes one new row and stores it after the others.{" "}
          {isFlat(cold)
            ? `So a token takes ${time(itl(cold))}, at the beginning of the answer and at its end;`
            : `A token takes ${time(growth(cold).first)} at the beginning of the answer and ${time(growth(cold).last)} at its end;`}{" "}
          without the cache it takes {time(growth(naive).first)} and {time(growth(naive).last)}.{" "}
          {!isSlower(itl(naive), itl(cold)) &&
            "Both take the same time here: with such a short context, reading the weights takes longer than computing the rows. A longer prompt shows the difference."}
        </p>
        <TokenTimes runs={[naive, cold]} />
        <p>How the time of a token grows with the n tokens of its context, as straight lines through the logarithms:</p>
        <ul class="facts-list">
          <Exponents run={naive} what="without a cache" />
          <Exponents run={cold} what="with the cache" />
        </ul>
        <p class="muted small">
          A power of 1 for each token makes a whole answer cost n², a power of 0 makes it cost n. At few tokens the weights cost
          more than the rows, so the power starts below 1 and grows. Where the times hardly grow with n, or vary
          for other reasons, no power explains them: an exponent is given from R² 0.8 on.
        </p>
      </Step>
      <Step number={next()} title="The same answer, bit for bit">
        <p>
          A cache must not change the answer. All {count(report.bits.compared)} logits of the run without a cache and of one more run with
          it were compared with those of the first run, as bytes: <b>{count(report.bits.different)} differ</b>.
        </p>
      </Step>
      <Step number={next()} title="The same prompt again">
        <p>
          The pages outlive the answer. When the same prompt came again, {count(warm.cached_tokens)} of its {count(n)} tokens were cached. It
          computed {count(warm.kv_rows[0]!)}: its first token came after {time(warm.ms[0]!)}, the first time after {time(cold.ms[0]!)}.
          {!isSlower(cold.ms[0]!, warm.ms[0]!) &&
            " With such a short prompt each of them is one pass through the weights; a longer prompt shows the difference."}
        </p>
        <Timeline runs={[naive, cold, warm]} />
      </Step>
      <Step number={next()} title="The cost: memory that grows">
        <p>
          Each token adds its rows, and memory is allocated in whole pages: {bytes(cold.kv_bytes[0]!)} after the prompt,{" "}
          {bytes(cold.kv_bytes.at(-1)!)} at the end.
        </p>
        <Plot title="Pages in use" x={{ label: "token of the answer", format: count }} y={{ label: inMiB ? "MiB" : "KiB", format: plain }}
          summary={`from ${bytes(cold.kv_bytes[0]!)} to ${bytes(cold.kv_bytes.at(-1)!)}`}
          lines={[{ name: kNames.cold, ...kLines.cold, points: cold.kv_bytes.flatMap((b, i): [number, number][] => [[i + 1, b / unit], [i + 2, b / unit]]) }]} />
      </Step>
    </>
  );
}

// TTFT and ITL of this run.
function Phases({ report, next }: { report: Report; next: Stepper }) {
  const cold = runOf(report, "cold");
  const n = report.prompt.tokens;
  const input = cold.ms[0]! / n;
  return (
    <Step number={next()} title="TTFT and ITL">
      <p>
        Each phase has its latency. <b>Prefill</b> computes the prompt; its latency is <b>TTFT</b>, time to first
        token: {time(cold.ms[0]!)}. <b>Decode</b> generates one token after the other; its latency is <b>ITL</b>,
        inter-token latency: {time(itl(cold))}. A token of this prompt took {time(input)}, a token of the answer{" "}
        {times(itl(cold) / input)} as long.
      </p>
    </Step>
  );
}

function Numbers({ report }: { report: Report }) {
  const [cold, naive, warm] = [runOf(report, "cold"), runOf(report, "naive"), runOf(report, "warm")];
  return (
    <details class="card numbers">
      <summary>All numbers of the three runs</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Numbers of every token">
        <table>
          <thead>
            <tr><th scope="col">token</th><th scope="col">text</th><th scope="col">context</th><th scope="col">ms without</th><th scope="col">ms with</th><th scope="col">ms, repeated prompt</th>
              <th scope="col">rows without</th><th scope="col">rows with</th><th scope="col">pages</th></tr>
          </thead>
          <tbody>
            {cold.ms.map((ms, i) => (
              <tr>
                <th scope="row">{i + 1}</th><td>{(report.answer.pieces[i] ?? "").replaceAll("\n", "⏎")}</td><td>{cold.n_seen[i]}</td>
                <td>{naive.ms[i]?.toFixed(2)}</td><td>{ms.toFixed(2)}</td><td>{warm.ms[i]?.toFixed(2)}</td>
                <td>{naive.kv_rows[i]}</td><td>{cold.kv_rows[i]}</td><td>{bytes(cold.kv_bytes[i]!)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

// The whole report. Parts that only the command measures are left out if they are missing.
export function Story({ report }: { report: Report }) {
  const figures = figuresOf(report);
  const shared = report.runs.some((run) => run.beside.some((n) => n > 0));
  let number = 0;
  const next = () => (number += 1);
  return (
    <div class="story">
      <Tiles report={report} />
      {report.repeats !== undefined && report.repeats > 1 && (
        <p class="muted small">Everything was run {report.repeats} times; each token has the minimum of its times.</p>
      )}
      {shared && <p class="notice">Other requests were served in the same steps, so the times below are longer than on an idle server.</p>}
      <Generation report={report} next={next} />
      <Phases report={report} next={next} />
      {figures
        ? <MachineSteps figures={figures} next={next} />
        : (
          <section class="card step">
            <h2>On this machine</h2>
            <p>
              Shares of the machine's limits, memory by type and context, and what GQA, a window, int8 and a shared prefix
              save are measured on an idle machine only, by the command line:
            </p>
            <pre class="command"><code>kvik explain MODEL</code></pre>
          </section>
        )}
      <Numbers report={report} />
    </div>
  );
}
