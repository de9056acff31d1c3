import { useStore } from "./store";
import { type Choice, chooseTheme, themeStore } from "./theme";

export function ThemeSwitch() {
  const { choice } = useStore(themeStore);
  const next: Record<Choice, Choice> = { auto: "light", light: "dark", dark: "auto" };
  const icon: Record<Choice, string> = { auto: "◐", light: "○", dark: "●" };
  return (
    <button type="button" class="theme" onClick={() => chooseTheme(next[choice])}
      title={`Theme: ${choice}`} aria-label={`Theme: ${choice}. Change to ${next[choice]}`}>
      <span aria-hidden="true">{icon[choice]}</span> {choice}
    </button>
  );
}
