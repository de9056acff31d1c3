import { createStore } from "./store";

// The API key, for as long as the tab is open.
const kName = "kvik.key";

export const keyStore = createStore({ key: sessionStorage.getItem(kName) ?? "", isWanted: false });

export function setKey(key: string): void {
  sessionStorage.setItem(kName, key);
  keyStore.set({ key, isWanted: false });
}

export function authorization(): Record<string, string> {
  const { key } = keyStore.get();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

// The server said 401.
export function askForKey(): void {
  keyStore.set({ ...keyStore.get(), isWanted: true });
}
