// SPDX-License-Identifier: MIT
// One flow: its verdict, its history, all its numbers, and what to do next.
import { nextSteps } from "./advice";
import type { FlowDetail } from "./api";
import { useAnswer } from "./asked";
import { DelayChart, RateChart, WindowChart } from "./chart";
import * as f from "./format";
import { Empty, LimitChip, Num, Panel, useLive } from "./parts";

const credits = { enough: "lent enough", waits: "waits for more", congested: "waits: this host's own link is congested" };

export function FlowPage(p: { id: string }) {
	const { summary } = useLive();
	const { body: detail, error } = useAnswer<FlowDetail>(`/api/v1/flows/${encodeURIComponent(p.id)}`, summary?.time_s);
	// Other errors tell nothing of the flow; the banner has them.
	const gone = error && [400, 404].includes(error.status) ? error.message : "";

	const back = <p class="back"><a href="#/flows">All flows</a></p>;
	if (!detail)
		return gone ? <>{back}<Panel title="Flow"><Empty title={gone}>It has ended, or the link is an old one. <a href="#/flows">All flows</a></Empty></Panel></> : null;

	const { flow, history, verdict } = detail;
	const rows: [string, preact.ComponentChild][] = [
		["RTT", <Num v={flow.rtt_ns} as={f.time} />],
		["RTT, smallest", <Num v={flow.min_rtt_ns} as={f.time} />],
		["Fabric delay", <Num v={flow.fabric_ns} as={f.time} />],
		["Host delay", <Num v={flow.host_ns} as={f.time} />],
		["Target of fabric delay", <Num v={flow.target_ns} as={f.time} />],
		["Fabric delay / target", <Num v={flow.fabric_ns !== null && flow.target_ns ? flow.fabric_ns / flow.target_ns : null} as={f.ratio} />],
		["Fabric window (fcwnd)", <><Num v={flow.fcwnd_pkts} as={f.packets} /> <span class="unit">pkts</span></>],
		["Endpoint window (ecwnd)", <><Num v={flow.ecwnd_pkts} as={f.packets} /> <span class="unit">pkts</span></>],
		["Kernel's window (snd_cwnd)", <><Num v={flow.snd_cwnd_pkts} as={f.count} /> <span class="unit">pkts</span></>],
		["Rate", <Num v={flow.rate_bps} as={f.rate} />],
		["Retransmitted", <><Num v={flow.retrans_pkts} as={f.count} /> <span class="unit">pkts</span></>],
		["Retransmitting", <Num v={flow.retrans_per_s} as={f.perSecond} />],
		["Age", <Num v={flow.age_s} as={f.span} />],
		["State", flow.state],
		["Congestion control", flow.cc + (flow.from_bpf ? " (BPF)" : "")],
		["Interface", flow.iface ?? f.unknown],
		["Network namespace", flow.netns ?? f.unknown],
		["Pod", flow.pod ?? f.unknown],
		["Container", flow.container ?? f.unknown],
		["Systemd unit", flow.unit ?? f.unknown],
		["Control group", flow.cgroup ? <span class="path">{flow.cgroup}</span> : f.unknown],
		["Process", flow.process ? `${flow.process.program} (${flow.process.pid})` : f.unknown],
		["Destination", flow.dst_prefix ?? f.unknown],
		["Credit", flow.credit === null || flow.credit === "none" ? f.unknown : credits[flow.credit]],
		["Stamps here", flow.local_stamp ?? f.unknown],
		["Echoed by the peer", flow.echo_stamp ?? f.unknown],
		["Socket cookie", flow.id],
	];
	return (
		<>
			{back}
			<div class="headline">
				<h1 id="verdict"><LimitChip limit={verdict.limit} /> {verdict.text}</h1>
				<p class="endpoints"><span>{flow.local}</span> <span class="dim">to</span> <span>{flow.remote}</span>{gone ? <strong class="warn"> {gone}; the last of it:</strong> : null}</p>
			</div>
			<div class="columns">
				<Panel title="Delay and windows" id="history">
					<div key={p.id}>
						<DelayChart series={history} step_s={history.step_s} height={270} />
						<WindowChart series={history} step_s={history.step_s} height={210} />
						<RateChart series={history} step_s={history.step_s} height={130} />
					</div>
				</Panel>
				<div class="stack">
					<Panel title="What to do next" id="next"><ol class="steps">{nextSteps(flow, verdict.limit).map((step, i) => <li key={i}>{step}</li>)}</ol></Panel>
					<Panel title="Numbers" id="numbers">
						<table class="small pairs"><tbody>{rows.map(([name, value]) => <tr key={name}><th scope="row" class="left">{name}</th><td>{value}</td></tr>)}</tbody></table>
					</Panel>
				</div>
			</div>
		</>
	);
}
