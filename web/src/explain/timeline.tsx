import { useRef } from "preact/hooks";
import { useWidth } from "../canvas";
import { type Run, type Way, itl, kNames } from "./report";
import { linear } from "./scale";
import { Ticks, plain, time } from "./ticks";

const kRow = 58;
const kTokens = 10; // number of tokens of the slowest run that fit
const kColors: Record<Way, string> = { cold: "sealed", naive: "leased", warm: "cached" };

// Shows when the first tokens arrived: a bar until the first one, then a mark for each.
export function Timeline({ runs }: { runs: Run[] }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const ends = (run: Run) => run.ms.slice(0, kTokens).reduce((sum, ms) => sum + ms, 0);
  const x = linear([0, Math.max(...runs.map(ends))], [8, Math.max(width, 200) - 14], Math.max(2, Math.floor(width / 110)));
  const bottom = kRow * runs.length;
  const limit = Math.max(width, 200) - 14;
  return (
    <figure class="plot">
      <figcaption><b>The first tokens on one clock</b> <span class="muted">a bar until the first token (TTFT), then a mark for each</span></figcaption>
      <div ref={box} class="plot-box">
        {width > 0 && (
          <svg width={width} height={bottom + 42} role="img"
            aria-label={runs.map((r) => `${kNames[r.way]}: first token after ${time(r.ms[0]!)}, then one every ${time(itl(r))}`).join("; ")}>
            <g class="axes">
              {x.ticks.map((v) => (
                <path class="grid" d={`M${x.at(v)} 2V${bottom}`} />
              ))}
              <Ticks ticks={x.ticks} at={x.at} y={bottom + 16} left={8} right={limit} format={plain} />
              <path class="axis" d={`M8 2V${bottom}H${limit}`} />
              <text class="axis-label" x={(8 + limit) / 2} y={bottom + 36} text-anchor="middle">milliseconds since the request's first step</text>
            </g>
            {runs.map((run, i) => {
              const top = i * kRow + 24;
              let at = 0;
              const marks = run.ms.map((ms) => (at += ms)).filter((t) => x.at(t) <= limit + 1);
              return (
                <g>
                  <text class="bar-name" x={14} y={top - 7}>
                    {kNames[run.way]} <tspan class="bar-note">TTFT {time(run.ms[0]!)}, ITL {time(itl(run))}</tspan>
                  </text>
                  <rect x={8} y={top} width={Math.max(2, x.at(run.ms[0]!) - 8)} height={18} rx={2} fill={`var(--${kColors[run.way]})`} />
                  {marks.map((t) => <path d={`M${x.at(t)} ${top - 2}v22`} stroke="var(--text)" stroke-width={1.5} />)}
                </g>
              );
            })}
          </svg>
        )}
      </div>
    </figure>
  );
}
