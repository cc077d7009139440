// SPDX-License-Identifier: MIT
// Server-sent events over fetch: unlike EventSource it can send a token, and it tells why
// a stream could not be had.
import { request } from "./api";

export async function readEvents(path: string, signal: AbortSignal, on: (event: string, data: string) => void): Promise<void> {
	const response = await request(path, signal);
	const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "", event = "message", data: string[] = [];

	for (;;) {
		const { value, done } = await reader.read();
		if (done)
			return;
		// A lone "\r" ends no line of swiftd's.
		const lines = (rest + value).split(/\r?\n/);
		rest = lines.pop() ?? "";
		for (const line of lines) {
			const [, name, text] = /^(\w+):? ?(.*)$/.exec(line) ?? [];
			if (line === "") {
				if (data.length)
					on(event, data.join("\n"));
				event = "message";
				data = [];
			} else if (name === "event") {
				event = text ?? "";
			} else if (name === "data") {
				data.push(text ?? "");
			}
		}
	}
}
