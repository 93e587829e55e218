/* SPDX-License-Identifier: MIT */
/* The page as a whole: reads the data, chooses a GPU and a moment, and has the parts drawn. */

class App {
	constructor(data) {
		const last = data.recordings.at(-1);
		this.data = data;
		this.documents = last.documents;
		this.messages = last.messages;
		this.pictures = data.recordings.filter((r) => r.documents.picture).map((r) => new Picture(r.documents.picture));
		this.picture = last.documents.picture ? this.pictures.at(-1) : null;
		this.picture?.devices.forEach((d) => { d.index = this.reportIndex(d); });
		this.time = 0;
	}

	/** Its place in the other documents, which list devices in the same order, but may leave some out. */
	reportIndex(device) {
		const f = device.facts, at = this.documents.report.devices.findIndex((d) => d.pid === f.pid && d.host === f.host && d.device === f.device);
		return at < 0 ? 0 : at;
	}

	start() {
		this.drawHead();
		this.drawFoot();
		if (!this.picture?.devices.length) {
			$("main").hidden = false;
			for (const id of ["timeline", "moment", "growth", "map", "ranks"])
				$(id).hidden = true;
			drawVerdict(this);
			return;
		}
		$("main").hidden = false;
		this.lives = new Lives(this);
		this.icicle = new Icicle(this);
		this.moment = new Moment(this);
		this.map = new AddressMap(this);
		this.timeline = new Timeline(this);
		this.fillChoice();
		this.choose(this.firstDevice());
		drawCompare(this);
		this.drawNav();
	}

	/** The one that ran out of memory, else the fullest. */
	firstDevice() {
		const devices = this.picture.devices, failed = devices.find((d) => this.documents.oom?.devices?.[d.index]?.findings?.length);
		return failed ?? devices.reduce((a, b) => b.total[b.peakPoint()] > a.total[a.peakPoint()] ? b : a);
	}

	fillChoice() {
		const devices = this.picture.devices;
		$("choose-device").hidden = devices.length < 2;
		$("device").replaceChildren(...devices.map((d, i) => element("option", { value: i }, `${d.name} (pid ${d.facts.pid})`)));
		$("device").onchange = (e) => this.choose(devices[e.target.value]);
	}

	choose(device) {
		this.device = device;
		this.grows = (this.documents.leaks?.growth ?? []).some((g) => g.causes.some((c) => c.is_finding) && g.pid === device.facts.pid && g.device === device.facts.device);
		$("device").value = this.picture.devices.indexOf(device);
		this.time = device.failures.length && this.documents.oom?.devices?.[device.index]?.findings?.length ? device.failures.at(-1).time_ns : device.points.time_ns[device.peakPoint()] ?? 0;
		drawVerdict(this);
		drawRanks(this);
		this.lives.use(device);
		this.icicle.use(device);
		this.moment.use(device);
		this.timeline.use(device);
		this.map.use(device);
		drawGrowth(this);
		this.look(this.time);
	}

	/** Look at a moment. */
	look(time) {
		this.time = time;
		this.moment.look(time);
		this.timeline.redraw();
		this.map.draw();
	}

	redraw() {
		if (!this.device)
			return;
		this.timeline.draw();
		this.lives.draw();
		this.map.draw();
		drawRanks(this);
		drawCompare(this);
	}

	drawHead() {
		const r = this.documents.report, processes = r.process_list, first = r.devices[0], path = r.recording.path;
		const name = path.split("/").at(-1).replace(/\.vtr$/, "");
		document.title = `${name}: GPU memory`;
		$("title").textContent = name;
		$("subtitle").textContent = [first?.name && `${first.name}${r.recording.simulated ? " (simulated)" : ""}`, processes[0]?.torch_version && `torch ${processes[0].torch_version}`,
			processes.length > 1 && countText(processes.length, "process").replace(/processs$/, "processes"), timeText(r.recording.duration_ns), countText(r.recording.events, "event"),
			r.recording.lost_events ? `${countText(r.recording.lost_events, "event")} lost` : "none lost", r.recording.end === "running" && "still running when it was read"].filter(Boolean).join(" · ");
		const trouble = [...new Set(Object.entries(this.messages).filter(([d]) => d === "report" || (d !== "oom" && d !== "frag" && !this.documents[d])).map(([, m]) => m))];
		$("trouble").hidden = !trouble.length;
		$("trouble").textContent = trouble.join(" ");
	}

	drawNav() {
		$("parts").replaceChildren(...[...document.querySelectorAll("main > section")].filter((s) => !s.hidden).map((s) =>
			element("a", { href: `#${s.id}` }, s.id === "verdict" ? "Verdict" : s.querySelector("h2").textContent)));
	}

	drawFoot() {
		const devices = this.picture?.devices.filter((d) => d.hasTensors) ?? [], all = devices.reduce((n, d) => n + d.nrBlocks, 0), large = devices.reduce((n, d) => n + d.nrLarge, 0);
		const missing = Object.entries(this.documents).filter(([name, d]) => !d && this.messages[name]).map(([name]) => element("li", {}, `${wordsOf(name)}: ${this.messages[name]}`));
		$("footer").replaceChildren(
			element("p", {}, devices.length ? `Of ${countText(all, "block")} the ${large.toLocaleString("en")} that weigh most, by bytes and by how long they lived, are in this page one by one; the others are summed up at ${devices.map((d) => d.summedAt.length.toLocaleString("en")).join(", ")} moments, at which all adds up exactly. Memory over time is exact at ${devices.map((d) => d.points.time_ns.length.toLocaleString("en")).join(", ")} moments; what falls between two of them is not drawn. ` : "",
				"Sizes are of blocks as the allocator hands them out. Made by vramtrace; nothing is loaded from elsewhere, and nothing leaves this page."),
			missing.length ? element("ul", {}, missing) : "",
			element("p", {}, "To see more: ", element("code", {}, `vramtrace report ${this.documents.report.recording.path}`)),
			element("details", {}, element("summary", {}, "Licence of d3, which draws"), element("pre", {}, new DOMParser().parseFromString($("licence").textContent, "text/html").body.textContent)));
	}
}

function chooseTheme(isDark) {
	document.documentElement.classList.toggle("dark", isDark);
}

async function main() {
	const wish = matchMedia("(prefers-color-scheme: dark)");
	chooseTheme(wish.matches);
	let app = null;
	wish.addEventListener("change", () => { chooseTheme(wish.matches); app?.redraw(); });
	$("theme").onclick = () => { chooseTheme(!document.documentElement.classList.contains("dark")); app?.redraw(); };
	window.addEventListener("beforeprint", () => { chooseTheme(false); app?.redraw(); });
	window.addEventListener("afterprint", () => { chooseTheme(wish.matches); app?.redraw(); });
	try {
		app = new App(await readData());
		app.start();
		document.documentElement.dataset.ready = String(Math.round(performance.now()));
	} catch (error) {
		$("trouble").hidden = false;
		$("trouble").textContent = `This page cannot be drawn: ${error.message}. A browser of 2023 or later is needed.`;
		throw error;
	}
}

main();
