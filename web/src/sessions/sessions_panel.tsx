import { useEffect, useRef, useState } from "preact/hooks";
import { count, percent } from "../format";
import { authorization } from "../key";
import { liveStore } from "../live";
import { withModel } from "../models/model_store";
import { useStore } from "../store";
import { type Session, causesText, readSessions } from "./session_list";
import "./sessions.css";

const kShown = 6;
const kPauseMs = 1000;

async function getSessions(): Promise<Session[]> {
  const response = await fetch(withModel("/kvik/sessions"), { headers: authorization(), cache: "no-store" });
  return response.ok ? readSessions(await response.json()) : [];
}

function Row({ session }: { session: Session }) {
  const { id, client, requests, promptTokens, reusedTokens, lostTokens } = session;
  const share = promptTokens > 0 ? reusedTokens / promptTokens : 0;
  const text = `${count(reusedTokens)} of ${count(promptTokens)} prompt tokens reused`;
  return (
    <tr data-session={id}>
      <td><span class="session-id" title={id}>{id}</span>{client !== "none" && <span class="muted"> {client}</span>}</td>
      <td class="number">{count(requests)}</td>
      <td>
        <div class="session-bar" role="img" aria-label={text} title={text}><span style={{ width: `${100 * share}%` }} /></div>
        <span class="muted">{percent(share)} of {count(promptTokens)}</span>
      </td>
      <td class="number">{lostTokens > 0 ? count(lostTokens) : "–"}<span class="muted causes">{causesText(session)}</span></td>
    </tr>
  );
}

// Lists the recent sessions and what they lost. Nothing is requested while the engine is idle.
export function Sessions() {
  const { link, view } = useStore(liveStore);
  const [sessions, setSessions] = useState<Session[]>([]);
  const done = view ? view.found_tokens + view.computed_tokens + view.running : 0;
  const timer = useRef(0);
  useEffect(() => {
    if (link !== "up" || timer.current) return; // one request a second, also while the counts change all the time
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      void getSessions().then(setSessions, () => undefined);
    }, kPauseMs);
  }, [link, done]);
  useEffect(() => () => clearTimeout(timer.current), []);
  if (sessions.length === 0) return null;
  return (
    <section class="card sessions" aria-labelledby="sessions-title">
      <div class="card-head">
        <h2 id="sessions-title">Sessions</h2>
        <span class="muted">lost: computed for the request before, and not reused</span>
      </div>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col">Session</th><th scope="col" class="number">Requests</th><th scope="col">Prompt tokens reused</th><th scope="col" class="number">Lost</th></tr></thead>
          <tbody>{sessions.slice(0, kShown).map((s) => <Row key={`${s.client} ${s.id}`} session={s} />)}</tbody>
        </table>
      </div>
      {sessions.length > kShown && <p class="muted small">and {count(sessions.length - kShown)} more</p>}
    </section>
  );
}
