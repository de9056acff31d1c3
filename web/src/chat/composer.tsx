import { useEffect, useRef } from "preact/hooks";
import { useStore } from "../store";
import { send, stop } from "./answer";
import type { ToolCall } from "./chat";
import { clearNotice, draftStore, setDraft } from "./draft";

// The input box. A message that the server rejected as too long is restored in it.
export function Composer({ isAnswering, call }: { isAnswering: boolean; call: ToolCall | undefined }) {
  const { text, notice } = useStore(draftStore);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (notice) area.current?.focus();
  }, [notice]);
  const submit = () => {
    if (!text.trim() || isAnswering) return;
    setDraft("");
    void send(text);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    submit();
  };
  return (
    <>
      {notice && (
        <div class="notice taken-back" role="alert">
          <p>{notice}</p>
          <button type="button" onClick={clearNotice}>Close</button>
        </div>
      )}
      <form class="composer" onSubmit={(e) => { e.preventDefault(); submit(); }}>
        <textarea id="prompt" ref={area} aria-label="Message" rows={2} value={text}
          placeholder={call ? `Result of ${call.name}` : "Write a message"}
          onInput={(e) => setDraft(e.currentTarget.value)} onKeyDown={onKeyDown} />
        {isAnswering
          ? <button type="button" class="stop" onClick={stop}>Stop</button>
          : <button type="submit" class="primary" disabled={!text.trim()}>Send</button>}
      </form>
    </>
  );
}
