/* SPDX-License-Identifier: MIT */
/* Growth from step to step: what the document of leaks says, and of each place its bytes at the beginning of each step. */

function sparkline(values) {
	const most = Math.max(...values, 1), n = values.length;
	const path = values.map((v, i) => `${i ? "L" : "M"}${(200 * i / Math.max(1, n - 1)).toFixed(1)},${(29 - 27 * v / most).toFixed(1)}`).join("");
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS("http://www.w3.org/2000/svg", "path");
	svg.setAttribute("viewBox", "0 0 200 30");
	svg.setAttribute("class", "spark");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", `from ${bytesText(values[0] ?? 0)} to ${bytesText(values[n - 1] ?? 0)}`);
	line.setAttribute("d", path);
	svg.append(line);
	return svg;
}

/** Bytes of the blocks of a line when each step began; of many steps at most 200 of them. */
function bytesAtSteps(device, label) {
	const steps = device.steps, each = Math.max(1, Math.ceil(steps.length / 200)), { birth, death, bytes, kind } = device.rows;
	const times = Array.from(steps).filter((_, i) => i % each === 0), values = new Array(times.length).fill(0);
	for (let i = 0; i < birth.length; i++) {
		if (device.label(kind[i], "stack") !== label)
			continue;
		for (let k = Math.max(0, lastUpTo(times, birth[i])); k < times.length && times[k] < death[i]; k++)
			if (times[k] >= birth[i])
				values[k] += bytes[i];
	}
	return values;
}

function drawGrowth(app) {
	const section = $("growth"), device = app.device, growth = (app.documents.leaks?.growth ?? []).filter((g) => g.memory !== "device" ? app.device.index === 0 :
		g.pid === device.facts.pid && g.device === device.facts.device);
	const shown = growth.filter((g) => g.causes.length || g.bytes_per_step > 0);
	section.hidden = !shown.length;
	section.replaceChildren(element("h2", { id: "growth-title" }, "Growth from step to step"), ...shown.flatMap((g) => {
		const rate = g.bytes_per_step != null ? `${bytesText(Math.round(g.bytes_per_step))} a step` : g.bytes_per_call != null ? `${bytesText(Math.round(g.bytes_per_call))} a call` : "";
		const end = g.predicted_oom_step ? `; by that it runs out near step ${g.predicted_oom_step}` : "";
		return [element("p", {}, `${g.memory === "device" ? "Memory of the GPU" : wordsOf(g.memory)} grows ${wordsOf(g.shape)}: ${rate}${end}.`),
			element("div", { class: "scroll" }, table("Where it goes", [{ title: "Each step", number: true }, { title: "Grown", number: true }, { title: "Since step", number: true }, { title: "At the beginning of each step" }, { title: "Allocated at" }, { title: "Name, and who keeps it" }],
				g.causes.map((c) => [c.bytes_per_step != null ? bytesText(Math.round(c.bytes_per_step)) : "", bytesText(c.grown_bytes), String(c.first_step ?? ""), sparkline(bytesAtSteps(device, placeText(c.site))),
					element("span", { class: "mono" }, placeText(c.site)), [element("span", { class: "mono" }, [c.name, ...keepersText(c.keepers)].filter(Boolean).join(", kept by ")), c.let_go_by && [" — let go by ", element("code", {}, c.let_go_by)]]])))];
	}));
}
