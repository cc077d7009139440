// SPDX-License-Identifier: MIT
// What to look at next, by what limits and by how well it is measured.
import type { ComponentChildren } from "preact";
import type { Bound, Flow } from "./api";

const bare = (endpoint: string): string => endpoint.replace(/^\[(.*)\]:\d+$/, "$1").replace(/^([^:]*):\d+$/, "$1");

export function nextSteps(flow: Flow, limit: Bound): ComponentChildren[] {
	const steps: ComponentChildren[] = [];
	const remote = bare(flow.remote);
	if (limit === "application")
		return [<>Nothing here: the application sends all that it has, or nothing. If it is slow all the same, look at what it waits for.</>];
	if (limit === "receiver")
		return [<>The program on {remote} does not read fast enough, or its receive buffer is too small: <code>ss -tmi</code> there, and <code>net.ipv4.tcp_rmem</code>.</>];
	if (limit === "credit")
		return [
			<>Credit: {remote} lends its link, and this flow waits its turn. <code>swiftctl credit</code> there says who has it, and why there is no more.</>,
			<>If it says <i>buffer</i>, the program there does not read fast enough: <code>ss -tmi</code>.</>,
		];
	if (limit === "own_link")
		return [<>Credit: this host sends to several receivers, and its own link is full, so that each lends it less. <code>swiftctl flows --held-by own_link</code> lists the flows that share it.</>];
	if (limit === "send_buffer")
		return [<>This program's send buffer is too small for the path: <code>net.ipv4.tcp_wmem</code>, or its own SO_SNDBUF.</>];
	if (flow.fabric_ns === null)
		return [
			<>Its delay is not measured in parts ({flow.cc}), so what limits it is not known here.</>,
			...(/swift/.test(flow.cc) ? [] : [<><code>swiftctl enable</code> makes swift the default; connections that are opened from then on run it.</>]),
		];
	if (limit === "fabric" || limit === "mixed") {
		steps.push(<>Fabric: packets wait in a queue between the NICs. <code>swiftctl probe {remote}</code> measures that path without either host.</>);
		steps.push(<>Compare <a href="#/">the other destinations</a>: if only {flow.dst_prefix ?? "this one"} is slow, the queue is near it; if all are, it is near this host.</>);
	}
	if (limit === "host" || limit === "mixed") {
		steps.push(<>Host: packets wait for a CPU. On {remote}, and here: is a core full of softirq (<code>mpstat -P ALL 1</code>), does the NIC drop (<code>ethtool -S {flow.iface ?? "DEV"}</code>), do all flows land on one queue?</>);
		steps.push(<><code>swiftctl doctor{flow.iface ? ` --iface ${flow.iface}` : ""}</code> judges this host's settings; run it on {remote} too.</>);
	}
	if (flow.echo_stamp === "none")
		steps.push(<>The peer echoes no delay, so its host counts as fabric: <code>swiftctl enable --echo</code> on both ends.</>);
	if (flow.local_stamp === "software" || flow.echo_stamp === "software")
		steps.push(<>Stamps are software's: a host's driver and NIC count as fabric. <code>swiftctl clock</code> says whether the NIC can do better.</>);
	return steps;
}
