import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useWidth } from "./canvas";
import { useStore } from "./store";
import { color, themeStore } from "./theme";
import { Term, type TermName } from "./tooltip";

export interface Series {
  label: string;
  term?: TermName; // the term that explains the label
  color: string; // name of a CSS custom property
  dash?: number[];
  fill?: boolean;
  values: (number | null)[];
}

const kHeight = 118;
const kSpan = 120; // seconds, when that many have passed
const kFirstSpan = 30;

// Draws the last two minutes. `format` formats the values and the axis labels.
export function Chart(props: { title: ComponentChildren; name: string; t: number[]; series: Series[]; format: (v: number) => string }) {
  const { title, name, t, series, format } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const width = useWidth(box);
  const { theme } = useStore(themeStore);
  const options = useMemo(() => optionsFor(series, format, theme), [theme]);
  useEffect(() => {
    if (width === 0) return;
    plot.current = new uPlot({ ...options, width, height: kHeight }, [[], ...series.map(() => [])], box.current!);
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [options, width > 0]);
  useEffect(() => {
    if (width > 0) plot.current?.setSize({ width, height: kHeight });
  }, [width]);
  useEffect(() => {
    const now = t.at(-1) ?? 0;
    const span = Math.min(kSpan, Math.max(kFirstSpan, now - (t[0] ?? now)));
    plot.current?.setData([t.map((at) => at - now), ...series.map((s) => s.values)], false);
    plot.current?.batch(() => {
      plot.current!.setScale("x", { min: -span, max: 0 });
    });
  }, [t, options, width > 0]);
  const latest = series.map((s) => s.values.findLast((v) => v !== null));
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        {series.map((s, i) => (
          <span class="chart-key">
            <i class="swatch" style={{ background: color(s.color) }} />
            {s.term ? <Term of={s.term}>{s.label}</Term> : s.label} <b>{latest[i] === undefined || latest[i] === null ? "–" : format(latest[i]!)}</b>
          </span>
        ))}
      </figcaption>
      <div ref={box} role="img" aria-label={`${name} over the last two minutes`} />
    </figure>
  );
}

// Without values the chart's scale is arbitrary, so it has no labels.
const hasValues = (u: uPlot) => u.data.slice(1).some((values) => values.some((v) => v));

function optionsFor(series: Series[], format: (v: number) => string, _theme: string): Omit<uPlot.Options, "width" | "height"> {
  const axis = {
    stroke: color("muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: color("line"), width: 1 },
    ticks: { show: false },
  };
  return {
    padding: [8, 16, 0, 0],
    cursor: { show: false },
    legend: { show: false },
    scales: {
      x: { time: false },
      y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.12 : 1] },
    },
    axes: [
      { ...axis, size: 22, space: 60, values: (_u, list) => list.map((v) => (v === 0 ? "now" : `${v} s`)) },
      { ...axis, size: 58, space: 28, values: (u, list) => list.map((v) => (hasValues(u) ? format(v) : "")) },
    ],
    series: [
      {},
      ...series.map((s) => ({
        label: s.label,
        stroke: color(s.color),
        width: 1.75,
        dash: s.dash,
        fill: s.fill ? `${color(s.color)}2e` : undefined,
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}
