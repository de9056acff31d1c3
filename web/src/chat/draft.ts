import { createStore } from "../store";

// The text in the input box, and the notice above it if the text was restored.
export const draftStore = createStore({ text: "", notice: "" });

export function setDraft(text: string): void {
  draftStore.set({ ...draftStore.get(), text });
}

// Restores a text that could not be sent, before any text typed since.
export function restoreDraft(text: string, notice: string): void {
  const typed = draftStore.get().text;
  draftStore.set({ text: typed.trim() ? `${text}\n${typed}` : text, notice });
}

export function clearNotice(): void {
  if (draftStore.get().notice) draftStore.set({ ...draftStore.get(), notice: "" });
}
