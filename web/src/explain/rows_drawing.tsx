import { useRef } from "preact/hooks";
import { useWidth } from "../canvas";
import { count } from "../format";
import type { Run } from "./report";
import { linear } from "./scale";
import { Ticks } from "./ticks";

const kHeight = 210;
const kLeft = 46;
const kBottom = 44;

// Draws what each step computed and read: one row for each token of the answer, with the first step on top and the
// tokens of the text from left to right. The engine counts these.
function Drawing({ run, title, width }: { run: Run; title: string; width: number }) {
  const n = run.n_seen.length;
  const last = run.n_seen.at(-1) ?? 1;
  const x = linear([0, last], [kLeft, width - 8], Math.max(2, Math.floor(width / 90)));
  const y = linear([0, n], [4, kHeight - kBottom], 4);
  const pitch = (kHeight - kBottom - 4) / n;
  const height = pitch > 4 ? pitch - 1 : pitch + 0.3;
  const computed = run.kv_rows.map((rows, i) => rows - (i > 0 ? run.kv_rows[i - 1]! : 0));
  return (
    <figure class="plot">
      <figcaption><b>{title}</b> <span class="muted">{count(run.kv_rows.at(-1) ?? 0)} rows computed</span></figcaption>
      <svg width={width} height={kHeight} role="img"
        aria-label={`${title}: ${n} steps computed ${run.kv_rows.at(-1)} rows of K and V, the last one ${computed.at(-1)}`}>
        {run.n_seen.map((seen, i) => {
          const from = x.at(seen - computed[i]!);
          return (
            <>
              <rect x={kLeft} y={y.at(i)} width={Math.max(0, from - kLeft)} height={height} fill="var(--cached)" fill-opacity={0.35} />
              <rect x={from} y={y.at(i)} width={Math.max(2, x.at(seen) - from)} height={height}
                fill={run.way === "naive" ? "var(--leased)" : "var(--sealed)"} />
            </>
          );
        })}
        <g class="axes">
          <Ticks ticks={x.ticks} at={x.at} y={kHeight - kBottom + 17} left={kLeft} right={width - 8} format={count} />
          {y.ticks.filter((v) => v > 0).map((v) => <text x={kLeft - 6} y={y.at(v)} text-anchor="end">{count(v)}</text>)}
          <path class="axis" d={`M${kLeft} 4V${kHeight - kBottom}H${width - 8}`} />
          <text class="axis-label" x={(kLeft + width) / 2} y={kHeight - 6} text-anchor="middle">token of the text</text>
          <text class="axis-label" transform={`translate(11 ${(kHeight - kBottom) / 2})rotate(-90)`} text-anchor="middle">step</text>
        </g>
      </svg>
    </figure>
  );
}

export function RowsDrawing({ cold, naive }: { cold: Run; naive: Run }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const each = width > 620 ? Math.floor((width - 20) / 2) : width;
  return (
    <div>
      <ul class="plot-legend">
        <li><i class="swatch leased" />computed, without a cache</li>
        <li><i class="swatch sealed" />computed, with the cache</li>
        <li><i class="swatch cached" />read from the cache</li>
      </ul>
      <div ref={box} class="plot-pair">
        {width > 0 && <Drawing run={naive} title="Without a cache" width={each} />}
        {width > 0 && <Drawing run={cold} title="With the cache" width={each} />}
      </div>
    </div>
  );
}
