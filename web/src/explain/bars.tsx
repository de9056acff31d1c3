import { useRef } from "preact/hooks";
import { useWidth } from "../canvas";
import type { Spread } from "./report";
import { linear, roundUp } from "./scale";
import { Ticks, plain } from "./ticks";

export interface Bar {
  name: string;
  value: Spread;
  color: string;
  note?: string;
}

const kBar = 16;
const kTop = 4;
const kNarrow = 520; // in narrower drawings, notes have their own line
const kAxis = 40;

// Draws horizontal bars on one axis: the minimum time of the repeats, with a whisker to the maximum. The minimum is
// used because other programs can only slow down a repeat.
export function Bars(props: { title: string; bars: Bar[]; label: string; format: (value: number) => string; note?: string }) {
  const { title, bars, label, format, note } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const right = Math.max(width, 200) - 12;
  const x = linear([0, roundUp(Math.max(...bars.map((b) => b.value.min * 1.35), 1e-9))], [8, right], Math.max(2, Math.floor(width / 110)));
  const isNarrow = width < kNarrow;
  const row = isNarrow ? 60 : 44;
  const bottom = kTop + row * bars.length;
  const inside = (v: number) => Math.min(x.at(v), right + 10);
  return (
    <figure class="plot">
      <figcaption><b>{title}</b>{note && <span class="muted"> {note}</span>}</figcaption>
      <div ref={box} class="plot-box">
        {width > 0 && (
          <svg width={width} height={bottom + kAxis} role="img"
            aria-label={`${title}. ${bars.map((b) => `${b.name}: ${format(b.value.min)}`).join("; ")}`}>
            <g class="axes">
              {x.ticks.map((v) => (
                <path class="grid" d={`M${x.at(v)} ${kTop}V${bottom}`} />
              ))}
              <Ticks ticks={x.ticks} at={x.at} y={bottom + 16} left={8} right={right} format={plain} />
              <path class="axis" d={`M8 ${kTop}V${bottom}H${right}`} />
              <text class="axis-label" x={(8 + right) / 2} y={bottom + 35} text-anchor="middle">{label}</text>
            </g>
            {bars.map((bar, i) => {
              const top = kTop + i * row + row - 24;
              const middle = top + kBar / 2;
              return (
                <g>
                  <text class="bar-name" x={14} y={top - (isNarrow ? 21 : 5)}>
                    <tspan class="bar-value">{format(bar.value.min)}</tspan> {bar.name}
                    {bar.note && !isNarrow && <tspan class="bar-note"> {bar.note}</tspan>}
                  </text>
                  {bar.note && isNarrow && <text class="bar-name bar-note" x={14} y={top - 5}>{bar.note}</text>}
                  <rect x={8} y={top} width={Math.max(2, x.at(bar.value.min) - 8)} height={kBar} rx={2} fill={`var(--${bar.color})`} />
                  <path class="whisker" d={`M${inside(bar.value.min)} ${middle}H${inside(bar.value.max)}M${inside(bar.value.min)} ${middle - 4}v8M${inside(bar.value.max)} ${middle - 4}v8`} />
                </g>
              );
            })}
          </svg>
        )}
      </div>
    </figure>
  );
}
