// SPDX-License-Identifier: MIT
// Numbers as people read them: three digits and a unit. What is not known is a dash.

export const unknown = "\u2013";

// Three significant digits, but never fewer than the integer part has.
export function digits3(v: number): string {
	const a = Math.abs(v);
	return a >= 99.95 ? v.toFixed(0) : a >= 9.995 ? v.toFixed(1) : v.toFixed(2);
}

function scaled(v: number, units: readonly (readonly [number, string])[]): string {
	const a = Math.abs(v);
	// 0.9995: what would round up to the next unit's 1.00 is said in it.
	const [size, unit] = units.find(([s]) => a >= 0.9995 * s) ?? units[units.length - 1]!;
	return `${digits3(v / size)} ${unit}`;
}

export type Format = (v: number | null | undefined) => string;
const orUnknown = (f: (v: number) => string): Format => (v) => (v === null || v === undefined || !Number.isFinite(v) ? unknown : f(v));

// Under a microsecond too: all of a column in the same unit reads better than "640 ns".
export const time = orUnknown((ns) => (ns === 0 ? "0 us" : scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])));
export const rate = orUnknown((bps) => (bps === 0 ? "0 b/s" : scaled(bps, [[1e12, "Tb/s"], [1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]])));
// On an axis: "50 us", where a column of figures has "50.0 us".
export const short = (text: string): string => text.replace(/^(-?\d+)(?:\.0+|(\.\d*[1-9])0+)(?=$| )/, "$1$2");

export const count = orUnknown((n) => n.toLocaleString("en-US", { maximumFractionDigits: 0 }));
// Of what is counted by the million nobody wants the last digit.
export const big = orUnknown((n) => (Math.abs(n) < 1e6 ? count(n) : scaled(n, [[1e12, "T"], [1e9, "G"], [1e6, "M"]])));
export const packets = orUnknown((n) => (n !== 0 && Math.abs(n) < 0.1 ? n.toPrecision(2) : digits3(n)));
export const perSecond = orUnknown((n) => (n === 0 ? "0 /s" : `${digits3(n)} /s`));
export const ppm = orUnknown((ppb) => `${digits3(ppb / 1000)} ppm`);
export const ratio = orUnknown((r) => `${digits3(100 * r)} %`);

export const span = orUnknown((s) => {
	if (s < 60)
		return `${s < 10 ? s.toFixed(1) : s.toFixed(0)} s`;
	const [big, small, unit, sub] = s < 3600 ? [60, 1, "min", "s"] as const : s < 86400 ? [3600, 60, "h", "min"] as const : [86400, 3600, "d", "h"] as const;
	return `${Math.floor(s / big)} ${unit} ${Math.floor((s % big) / small)} ${sub}`;
});

// As policies have it: the same on every host, in every browser.
export const dateTime = (time_s: number): string => `${new Date(time_s * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
export const clockTime = (time_s: number): string => new Date(time_s * 1000).toLocaleTimeString([], { hour12: false });

export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
