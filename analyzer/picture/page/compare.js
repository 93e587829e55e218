/* SPDX-License-Identifier: MIT */
/* Two recordings: what differs, by the document of diff, and both over time on one scale. */

function differenceTable(caption, rows) {
	const shown = rows.filter((r) => r.grown_bytes).sort((a, b) => Math.abs(b.grown_bytes) - Math.abs(a.grown_bytes)).slice(0, 20);
	return shown.length ? element("div", { class: "scroll" }, table(caption, [{ title: "Grown", number: true }, { title: "Before", number: true }, { title: "After", number: true }, { title: "What" }],
		shown.map((r) => [deltaText(r.grown_bytes), bytesText(r.before_bytes), bytesText(r.after_bytes), element("span", { class: "mono" }, r.place ?? wordsOf(r.what))]))) : null;
}

function drawCompare(app) {
	const diff = app.data.diff, section = $("compare");
	section.hidden = !diff;
	if (!diff)
		return;
	const pictures = app.pictures, tops = pictures.flatMap((p) => p.devices.map((d) => d.total[d.peakPoint()] ?? 0)), top = Math.max(1, ...tops), end = Math.max(1, ...pictures.map((p) => p.duration));
	const plots = pictures.map((p, i) => ({ device: p.devices[0], canvas: element("canvas", { role: "img", "aria-label": "memory over time", style: "height:9rem" }), path: app.data.recordings[i].path }));
	section.replaceChildren(element("h2", { id: "compare-title" }, "What differs"),
		element("p", {}, "From ", element("code", {}, diff.before), " to ", element("code", {}, diff.after), "."),
		element("ul", {}, diff.differences.map((d) => element("li", {}, `${d.what}: ${d.before} before, ${d.after} after`))),
		element("div", { class: "columns" }, plots.filter((p) => p.device).map((p, i) => element("div", {}, element("h3", {}, `${i ? "After" : "Before"}: ${p.path}`), element("div", { class: "plot" }, p.canvas)))),
		element("p", { class: "hint" }, `Both on one scale: up to ${bytesText(top)} and ${timeText(end)}. All below is of the second.`),
		...diff.devices.flatMap((d) => [differenceTable("Figures", d.figures), differenceTable("By what it is for", d.category), differenceTable("By line", d.stacks), differenceTable("By module", d.module), differenceTable("By library", d.library)]).filter(Boolean));
	for (const { device, canvas } of plots)
		if (device)
			drawSmall(canvas, device, top, end);
}
