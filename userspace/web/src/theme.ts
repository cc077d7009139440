// SPDX-License-Identifier: MIT
// Light or dark: the system's choice until someone says otherwise, which is remembered.

export type Theme = "light" | "dark";
const key = "swiftd-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): Theme | null {
	try {
		const value = localStorage.getItem(key);
		return value === "light" || value === "dark" ? value : null;
	} catch {
		return null; // storage may be forbidden
	}
}

export const theme = (): Theme => chosen() ?? (system.matches ? "dark" : "light");

function apply(): void {
	document.documentElement.dataset["theme"] = theme();
	for (const listener of listeners)
		listener();
}

export function toggleTheme(): void {
	try {
		localStorage.setItem(key, theme() === "dark" ? "light" : "dark");
	} catch {
		return;
	}
	apply();
}

export function onTheme(listener: () => void): () => void {
	listeners.add(listener);
	return () => listeners.delete(listener);
}

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

system.addEventListener("change", apply);
apply();
