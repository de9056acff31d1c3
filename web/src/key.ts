import { createStore } from "./store";

// The API key is stored for as long as the tab is open.
const kName = "kvik.key";

export const keyStore = createStore({ key: sessionStorage.getItem(kName) ?? "", isKeyNeeded: false, wasRefused: false });

export function setKey(key: string): void {
  sessionStorage.setItem(kName, key);
  keyStore.set({ key, isKeyNeeded: false, wasRefused: false });
}

export function authorization(): Record<string, string> {
  const { key } = keyStore.get();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

// Called after status 401: the stored key was rejected, or there is none.
export function askForKey(): void {
  const { key, wasRefused } = keyStore.get();
  sessionStorage.removeItem(kName);
  keyStore.set({ key: "", isKeyNeeded: true, wasRefused: wasRefused || key !== "" });
}
