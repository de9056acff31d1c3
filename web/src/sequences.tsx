import { count, duration } from "./format";
import { Phase, type Sequence, liveStore } from "./live";
import { useStore } from "./store";
import { Term } from "./tooltip";

// Shows one sequence as a strip: the cached, computed and pending parts of its prompt, then its answer.
const kPhases = ["prefill", "decode", "ended"];

function Strip({ sequence }: { sequence: Sequence }) {
  const { prompt, found, cached, generated, maxTokens } = sequence;
  // A long maximum length would leave no room for the tokens that exist.
  const all = prompt + Math.max(generated, Math.min(maxTokens, Math.max(32, 2 * generated, prompt / 4)));
  const computed = Math.max(0, Math.min(cached, prompt) - found);
  const parts: [string, number][] = [
    ["found", found], ["computed", computed], ["pending", Math.max(0, prompt - found - computed)], ["answer", generated],
  ];
  const doing = kPhases[sequence.phase]!;
  return (
    <li class={sequence.phase === Phase.Ended ? "strip over" : "strip"}>
      <div class="strip-text">
        <b>#{sequence.id}</b> <span class={`phase ${doing}`}>{doing}</span>
        <span class="muted">{duration(sequence.ageMs)}</span>
        <span class="muted right">
          {count(found)} cached · {count(computed)} computed · {count(generated)} generated
        </span>
      </div>
      <div class="strip-bar" aria-hidden="true">
        {parts.map(([kind, n]) => n > 0 && <span class={kind} style={{ width: `${(100 * n) / all}%` }} />)}
      </div>
    </li>
  );
}

const kShown = 7;

export function Sequences() {
  const { sequences, ended, view } = useStore(liveStore);
  const hidden = sequences.length - kShown;
  return (
    <section class="card" aria-labelledby="sequences-title">
      <div class="card-head">
        <h2 id="sequences-title"><Term of="sequence">Sequences</Term></h2>
        {view && <span class="muted">{count(view.running)} running, {count(view.waiting)} waiting</span>}
      </div>
      <ul class="strips">
        {sequences.slice(0, kShown).map((s) => <Strip key={s.id} sequence={s} />)}
        {sequences.length < 4 &&
          ended.slice(0, 4 - sequences.length).map((s) => <Strip key={s.id} sequence={s} />)}
      </ul>
      {hidden > 0 && <p class="muted small">and {count(hidden)} more</p>}
      {sequences.length === 0 && ended.length === 0 && <p class="muted small">No running sequences.</p>}
    </section>
  );
}
