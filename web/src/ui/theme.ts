// Light or dark: the system's choice, or the person's, which is kept in this browser.

import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const KEPT = "sandyard-theme";
const kept = localStorage.getItem(KEPT);
export const theme = new Store<Theme>(kept === "light" || kept === "dark" ? kept : "system");

const dark = matchMedia("(prefers-color-scheme: dark)");
const wanted = (): "light" | "dark" => (theme.value === "system" ? (dark.matches ? "dark" : "light") : theme.value);
/** The colours that are shown: what draws with them by itself draws again when they change. */
export const colours = new Store(wanted());
export const isDark = (): boolean => colours.value === "dark";

function apply(): void {
  document.documentElement.dataset["theme"] = wanted();
  colours.value = wanted();
}

export function toggleTheme(): void {
  theme.value = isDark() ? "light" : "dark";
  localStorage.setItem(KEPT, theme.value);
  apply();
}

dark.addEventListener("change", apply);
apply();
