import { useRef } from "preact/hooks";
import { useWidth } from "../canvas";
import { type Scale, linear, logarithmic, roundUp } from "./scale";

export interface Line {
  name: string;
  color: string; // name of a CSS custom property
  dash?: string;
  width?: number;
  points: [number, number][];
  marks?: "circle" | "square";
}

export interface Axis {
  label: string;
  format: (value: number) => string;
  base?: number; // base of a logarithmic axis
  max?: number;
}

const kHeight = 250;
const kMargin = { top: 10, right: 14, bottom: 46, left: 72 };

export function Legend({ lines }: { lines: Pick<Line, "name" | "color" | "dash" | "marks">[] }) {
  return (
    <ul class="plot-legend">
      {lines.map((line) => (
        <li>
          <svg width={30} height={10} aria-hidden="true">
            <path d="M1 5H29" stroke={`var(--${line.color})`} stroke-width={2.5} stroke-dasharray={line.dash} />
            {line.marks && <Mark kind={line.marks} x={15} y={5} color={line.color} />}
          </svg>
          {line.name}
        </li>
      ))}
    </ul>
  );
}

function Mark({ kind, x, y, color }: { kind: "circle" | "square"; x: number; y: number; color: string }) {
  return kind === "circle"
    ? <circle cx={x} cy={y} r={3.5} fill={`var(--${color})`} />
    : <rect x={x - 3.2} y={y - 3.2} width={6.4} height={6.4} fill={`var(--${color})`} />;
}

function path(line: Line, x: Scale, y: Scale): string {
  return line.points.map(([px, py], i) => `${i ? "L" : "M"}${x.at(px).toFixed(1)} ${y.at(py).toFixed(1)}`).join("");
}

export function Axes(props: { x: Scale; y: Scale; xAxis: Axis; yAxis: Axis; width: number; height: number }) {
  const { x, y, xAxis, yAxis, width, height } = props;
  const bottom = height - kMargin.bottom;
  const right = width - kMargin.right;
  return (
    <g class="axes">
      {y.ticks.map((v) => (
        <>
          <path class="grid" d={`M${kMargin.left} ${y.at(v)}H${right}`} />
          <text x={kMargin.left - 7} y={y.at(v) + 4} text-anchor="end">{yAxis.format(v)}</text>
        </>
      ))}
      {x.ticks.map((v) => (
        <>
          <path class="tick" d={`M${x.at(v)} ${bottom}v5`} />
          <text x={x.at(v)} y={bottom + 18} text-anchor="middle">{xAxis.format(v)}</text>
        </>
      ))}
      <path class="axis" d={`M${kMargin.left} ${kMargin.top}V${bottom}H${right}`} />
      <text class="axis-label" x={(kMargin.left + right) / 2} y={height - 6} text-anchor="middle">{xAxis.label}</text>
      <text class="axis-label" transform={`translate(13 ${(kMargin.top + bottom) / 2})rotate(-90)`} text-anchor="middle">
        {yAxis.label}
      </text>
    </g>
  );
}

export function scales(lines: Line[], xAxis: Axis, yAxis: Axis, width: number): { x: Scale; y: Scale } {
  const xs = lines.flatMap((line) => line.points.map((p) => p[0]));
  const ys = lines.flatMap((line) => line.points.map((p) => p[1]));
  const across: [number, number] = [kMargin.left, width - kMargin.right];
  const up: [number, number] = [kHeight - kMargin.bottom, kMargin.top];
  const xMax = xAxis.max ?? Math.max(...xs, 1);
  const yMax = yAxis.max ?? roundUp(Math.max(...ys, 0));
  const nx = Math.max(2, Math.floor(width / 90));
  const down = (values: number[], base: number) => base ** Math.floor(Math.log(Math.min(...values)) / Math.log(base));
  const over = (values: number[], base: number) => base ** Math.ceil(Math.log(Math.max(...values)) / Math.log(base) - 1e-9);
  return {
    x: xAxis.base ? logarithmic([Math.min(...xs), xMax], across, xAxis.base) : linear([Math.min(...xs, 0), xMax], across, nx),
    y: yAxis.base ? logarithmic([down(ys, yAxis.base), over(ys, yAxis.base)], up, yAxis.base) : linear([0, yMax], up, 5),
  };
}

// Draws lines over axes with units. `summary` describes the plot in words.
export function Plot(props: { title: string; summary: string; lines: Line[]; x: Axis; y: Axis; note?: string }) {
  const { title, summary, lines, x: xAxis, y: yAxis, note } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const drawn = lines.filter((line) => line.points.length > 0);
  const { x, y } = scales(drawn, xAxis, yAxis, Math.max(width, 200));
  return (
    <figure class="plot">
      <figcaption><b>{title}</b>{note && <span class="muted"> {note}</span>}</figcaption>
      <Legend lines={lines} />
      <div ref={box} class="plot-box">
        {width > 0 && drawn.length > 0 && (
          <svg width={width} height={kHeight} role="img" aria-label={`${title}. ${summary}`}>
            <Axes x={x} y={y} xAxis={xAxis} yAxis={yAxis} width={width} height={kHeight} />
            {drawn.map((line) => (
              <g>
                <path d={path(line, x, y)} fill="none" stroke={`var(--${line.color})`} stroke-width={line.width ?? 2}
                  stroke-dasharray={line.dash} stroke-linejoin="round" />
                {line.marks && line.points.map(([px, py]) => (
                  <Mark kind={line.marks!} x={x.at(px)} y={y.at(py)} color={line.color} />
                ))}
              </g>
            ))}
          </svg>
        )}
      </div>
    </figure>
  );
}
