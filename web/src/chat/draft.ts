import { createStore } from "../store";

// The text in the input box, and a sentence above it that says why it is there.
export const draftStore = createStore({ text: "", notice: "" });

export function setDraft(text: string): void {
  draftStore.set({ ...draftStore.get(), text });
}

// Puts a text that could not be sent into the input box, before what was typed since.
export function restoreDraft(text: string, notice: string): void {
  const typed = draftStore.get().text;
  draftStore.set({ text: typed.trim() ? `${text}\n${typed}` : text, notice });
}

export function clearNotice(): void {
  if (draftStore.get().notice) draftStore.set({ ...draftStore.get(), notice: "" });
}
