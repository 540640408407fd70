// Light or dark: the system's choice, or the person's, which is kept in this browser.

import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const KEPT = "sandyard-theme";
const kept = localStorage.getItem(KEPT);
export const theme = new Store<Theme>(kept === "light" || kept === "dark" ? kept : "system");

const dark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = (): boolean => (theme.value === "system" ? dark.matches : theme.value === "dark");

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
}

export function toggleTheme(): void {
  theme.value = isDark() ? "light" : "dark";
  localStorage.setItem(KEPT, theme.value);
  apply();
}

dark.addEventListener("change", apply);
apply();
