import { milliseconds } from "../format";

// Formats a time with at least two significant digits.
export function time(ms: number): string {
  return ms < 1 && ms > 0 ? `${ms.toPrecision(2)} ms` : milliseconds(ms);
}

export const plain = (v: number): string => String(+v.toPrecision(3));

// Draws the tick labels of a horizontal axis; the outermost ones stay inside the drawing.
export function Ticks(props: { ticks: number[]; at: (v: number) => number; y: number; left: number; right: number; format: (v: number) => string }) {
  const { ticks, at, y, left, right, format } = props;
  const anchor = (x: number) => (x < left + 12 ? "start" : x > right - 18 ? "end" : "middle");
  return (
    <>
      {ticks.map((v) => <text x={anchor(at(v)) === "start" ? left : at(v)} y={y} text-anchor={anchor(at(v))}>{format(v)}</text>)}
    </>
  );
}
