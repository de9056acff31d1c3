import { storage } from "./storage";
import { createStore } from "./store";

export type Choice = "auto" | "light" | "dark";
export type Theme = "light" | "dark";

const kName = "kvik.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(): Choice {
  const choice = storage.get(kName);
  return choice === "light" || choice === "dark" ? choice : "auto";
}

const resolved = (choice: Choice): Theme => (choice === "auto" ? (dark.matches ? "dark" : "light") : choice);

export const themeStore = createStore({ choice: stored(), theme: resolved(stored()) });

function apply(choice: Choice): void {
  const theme = resolved(choice);
  document.documentElement.dataset["theme"] = theme;
  themeStore.set({ choice, theme });
}

export function chooseTheme(choice: Choice): void {
  storage.set(kName, choice);
  apply(choice);
}

export function startTheme(): void {
  apply(stored());
  dark.addEventListener("change", () => apply(themeStore.get().choice));
}

// Returns the value of a custom property, for canvases and charts.
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
