import { milliseconds } from "../format";

// A time, with two digits at least that say something.
export function time(ms: number): string {
  return ms < 1 && ms > 0 ? `${ms.toPrecision(2)} ms` : milliseconds(ms);
}

export const plain = (v: number): string => String(+v.toPrecision(3));

// The marks of a horizontal axis; those at its ends stay inside the drawing.
export function Ticks(props: { ticks: number[]; at: (v: number) => number; y: number; left: number; right: number; format: (v: number) => string }) {
  const { ticks, at, y, left, right, format } = props;
  const anchor = (x: number) => (x < left + 12 ? "start" : x > right - 18 ? "end" : "middle");
  return (
    <>
      {ticks.map((v) => <text x={anchor(at(v)) === "start" ? left : at(v)} y={y} text-anchor={anchor(at(v))}>{format(v)}</text>)}
    </>
  );
}
