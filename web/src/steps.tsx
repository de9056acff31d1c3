import { useEffect, useRef } from "preact/hooks";
import { prepared, useWidth } from "./canvas";
import { count, milliseconds } from "./format";
import { type Step, liveStore } from "./live";
import { useStore } from "./store";
import { color, themeStore } from "./theme";
import { Term } from "./tooltip";

const kHeight = 92;
const kPitch = 5;
const kFewRows = 7; // with fewer rows, bars do not fill the height

// The scale is logarithmic: a decode step may have one row, a prefill chunk hundreds.
const heightOf = (rows: number, most: number) => (rows <= 0 ? 0 : Math.log2(rows + 1) / Math.log2(most + 1));

function drawSteps(context: CanvasRenderingContext2D, steps: Step[], width: number): void {
  const n = Math.floor(width / kPitch);
  const shown = steps.slice(-n);
  const prefill = color("leased");
  const decode = color("sealed");
  const accepted = color("accent");
  const rejected = color("line");
  const most = Math.max(kFewRows, ...shown.map((step) => step.prefillRows + step.decodeRows));
  context.fillStyle = color("line");
  context.fillRect(0, kHeight - 1, width, 1);
  shown.forEach((step, i) => {
    const x = (n - shown.length + i) * kPitch;
    const usable = kHeight - 6;
    const all = usable * heightOf(step.prefillRows + step.decodeRows, most);
    const share = step.decodeRows / Math.max(1, step.prefillRows + step.decodeRows);
    const decodePart = step.prefillRows > 0 && step.decodeRows > 0 ? Math.max(3, all * share) : all * share;
    // From below: a token of each sequence, accepted draft tokens, rejected draft tokens.
    const row = decodePart / Math.max(1, step.decodeRows);
    let top = kHeight - 2;
    const add = (style: string, rows: number) => {
      context.fillStyle = style;
      context.fillRect(x, top - rows * row, kPitch - 1, rows * row);
      top -= rows * row;
    };
    add(decode, step.decodeRows - step.drafted);
    add(accepted, step.accepted);
    add(rejected, step.drafted - step.accepted);
    context.fillStyle = prefill;
    context.fillRect(x, kHeight - 2 - all, kPitch - 1, all - decodePart);
  });
}

export function Steps() {
  const { steps, version } = useStore(liveStore);
  const { theme } = useStore(themeStore);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  useEffect(() => {
    if (width > 0) drawSteps(prepared(canvas.current!, width, kHeight), steps, width);
  }, [version, theme, width]);
  const last = steps.at(-1);
  return (
    <section class="card" aria-labelledby="steps-title">
      <div class="card-head">
        <h2 id="steps-title"><Term of="step">Steps</Term></h2>
        <span class="muted keys">
          <span><i class="swatch leased" />prefill chunk</span>
          <span><i class="swatch sealed" />decode</span>
          <span><i class="swatch accepted" />accepted draft token</span>
        </span>
      </div>
      <div ref={box}>
        <canvas ref={canvas} role="img" aria-label="The latest engine steps, each with its prefill and decode tokens" />
      </div>
      <p class="muted small">
        {last
          ? `step ${count(last.number)}: ${count(last.prefillRows)} prefill and ${count(last.decodeRows)} decode tokens of ${count(last.sequences)} sequence${last.sequences === 1 ? "" : "s"} in ${milliseconds(last.ms)}${last.drafted > 0 ? `, ${count(last.accepted)} of ${count(last.drafted)} draft tokens accepted` : ""}`
          : "No steps yet."}
      </p>
    </section>
  );
}
