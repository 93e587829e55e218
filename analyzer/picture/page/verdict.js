/* SPDX-License-Identifier: MIT */
/* What the matter is and what to do about it, from the documents of report, oom, leaks and advise. */

const verdictTitles = { too_big: "It asks for more than fits", fragmentation: "Free memory lies in pieces", leak: "Tensors are kept from step to step",
	graph_retention: "Graphs of earlier steps are kept", cycle: "Objects wait for the garbage collector",
	exception: "A failure keeps what it was doing", spike: "One step needs far more than the others", kv_cache: "The KV cache grows",
	attention_matrix: "Attention makes a whole matrix", logits_fp32: "Logits are made in full", fft_upcast: "A transform needs more precision",
	contiguous_copy: "A copy is made", padding: "Padding fills batches", other_process: "Other processes hold memory",
	non_torch: "Memory outside PyTorch", user_limit: "A limit that was set is reached", rank_imbalance: "One rank holds more than the others",
	host_oom: "The host's memory ran out" };

const certaintyText = { proven: "proven by what was recorded", likely: "probable", hint: "a hint" };

/** Source lines, where the page has them. */
function sourceBlock(picture, frame, bytes) {
	const lines = frame && frame.file ? picture?.source(frame.file, frame.line) : null;
	return lines && element("div", { class: "source mono", role: "group", "aria-label": `source of ${frame.file}` }, lines.map((l) =>
		element("div", { class: l.line === frame.line && "hit" }, element("span", { class: "nr" }, String(l.line)),
			element("span", { class: "bytes" }, l.line === frame.line && bytes ? bytesText(bytes) : ""), l.text)));
}

function keepersText(keepers) {
	return (keepers ?? []).map((k) => {
		const what = [k.name, k.kind && k.length != null ? `a ${k.kind} of ${k.length}` : k.kind && k.root !== "native" ? `a ${k.kind}` : null];
		const where = k.file ? ` in ${k.function ? k.function + "() at " : ""}${shortPath(k.file)}${k.line ? ":" + k.line : ""}` : "";
		return what.filter(Boolean).join(", ") + where;
	});
}

function findingCard(app, finding, isFirst, failed) {
	const heading = isFirst ? "h2" : "h3", title = verdictTitles[finding.verdict] ?? wordsOf(finding.verdict);
	const keepers = keepersText(finding.keepers), advice = finding.advice ?? [];
	return element("div", { class: "card verdict" },
		element(heading, { id: isFirst && "verdict-title" }, isFirst && failed ? `Out of memory: ${title.charAt(0).toLowerCase()}${title.slice(1)}` : title),
		element("p", { class: "evidence" }, finding.evidence[0] ?? ""),
		finding.site?.file && element("p", { class: "place", id: isFirst && "culprit" }, "Allocated at ",
			element("strong", { class: "mono", title: finding.site.file }, placeText(finding.site)),
			finding.caller?.file && [", called from ", element("span", { class: "mono" }, placeText(finding.caller))]),
		sourceBlock(app.device?.picture, finding.site, finding.bytes),
		finding.name && element("p", {}, "The program calls it ", element("strong", { class: "mono" }, finding.name),
			keepers.length > 0 && ["; kept by ", element("span", { class: "mono" }, keepers.join(", which is kept by "))], "."),
		finding.let_go_by && !advice.some((a) => a.includes(finding.let_go_by)) && element("p", {}, "It is let go by ", element("code", {}, finding.let_go_by), "."),
		finding.evidence.length > 1 && element("ul", {}, finding.evidence.slice(1).map((e) => element("li", {}, e))),
		advice.length > 0 && isFirst && element("div", { class: "do" }, element("h3", {}, "What to do"),
			element("ol", {}, advice.map((a) => element("li", {}, a)))),
		finding.certainty && element("p", { class: "hint" }, `Certainty: ${certaintyText[finding.certainty]}.`));
}

/** What a healthy job gets: its peak, and who holds it. */
function peakCard(app, report) {
	const d = report.devices[app.device?.index ?? 0];
	if (!d)
		return element("div", { class: "card verdict fine" }, element("h2", { id: "verdict-title" }, "No GPU memory was allocated"));
	const peak = d.tensor.peak_bytes || d.driver.peak_bytes, reserved = d.reserved.peak_bytes || d.driver.peak_bytes;
	const most = app.documents.by_stack?.devices?.[app.device?.index ?? 0]?.groups?.[0];
	const share = d.capacity_bytes ? `, ${percentText(reserved, d.capacity_bytes)} of the GPU` : "";
	return element("div", { class: "card verdict fine" },
		element("h2", { id: "verdict-title" }, `It fitted: ${bytesText(reserved)}${share}`),
		element("p", { class: "evidence" }, d.tensor.peak_bytes ? `Tensors held ${bytesText(peak)} at the peak${d.peak_step ? `, in step ${d.peak_step}` : ""}${d.peak_phase ? `, in ${d.peak_phase}` : ""}. No growth was found from step to step.`
			: `The program took ${bytesText(peak)} from the driver at the most.`),
		most?.site?.file && element("p", { class: "place", id: "culprit" }, `Most of it, ${bytesText(most.bytes)}, was allocated at `,
			element("strong", { class: "mono", title: most.site.file }, placeText(most.site)), "."),
		sourceBlock(app.device?.picture, most?.site, most?.bytes));
}

function adviceCard(advise, isFirst) {
	const list = advise?.advice ?? [];
	if (!list.length)
		return null;
	return element("div", { class: "card do" }, element("h3", {}, isFirst ? "What would make the peak smaller" : "Besides, this would make the peak smaller"),
		element("ol", {}, list.map((a) => element("li", {}, element("strong", {}, `${bytesText(a.saved_bytes)} less: `), a.action,
			a.evidence && element("span", { class: "cost" }, a.evidence), a.cost && element("span", { class: "cost" }, `It costs: ${a.cost}`)))));
}

/** Who holds the peak, by the names that the program has, else by line. */
function holdersCard(app) {
	const groups = app.documents.by_name?.devices?.[app.device?.index ?? 0]?.groups ?? [];
	const lines = app.documents.by_stack?.devices?.[app.device?.index ?? 0];
	const named = groups.some((g) => g.name) && groups, total = lines?.bytes ?? 0;
	const rows = named ? named.slice(0, 8).map((g) => [bytesText(g.bytes), percentText(g.bytes, total), String(g.blocks),
		[element("span", { class: "chip", style: `background:${categoryColours[g.category] ?? OTHER_COLOUR}` }), wordsOf(g.category)],
		element("span", { class: "mono" }, g.name ?? "no name is known")])
		: (lines?.groups ?? []).slice(0, 8).map((g) => [bytesText(g.bytes), percentText(g.bytes, total), String(g.count ?? g.blocks ?? ""), g.node ?? "", element("span", { class: "mono" }, placeText(g.site))]);
	if (!rows.length)
		return null;
	return element("div", { class: "card scroll" }, table(`Who held the ${bytesText(total)} at the peak`, [{ title: "Bytes", number: true },
		{ title: "Share", number: true }, { title: "Blocks", number: true }, { title: named ? "For" : "Node" }, { title: named ? "Name in the program" : "Allocated at" }], rows));
}

/** What the GPU was filled with at its fullest, as one bar. */
function gauge(d) {
	if (!d?.capacity_bytes)
		return null;
	const parts = Object.entries(d.categories_at_peak).filter(([, bytes]) => bytes > 0).map(([name, bytes]) => [wordsOf(name), bytes, categoryColours[name]]);
	const held = parts.reduce((sum, part) => sum + part[1], 0), cached = Math.max(0, d.reserved.peak_bytes - held);
	const outside = Math.max(0, (d.residual.device_at_driver_peak_bytes ?? d.driver.peak_bytes) - d.reserved.peak_bytes);
	parts.push(["cached, not in use", cached, "#c9ced3"], ["outside PyTorch", outside, "#6b7075"]);
	const text = parts.filter((p) => p[1] > 0.001 * d.capacity_bytes).map(([name, bytes]) => `${name} ${bytesText(bytes)}`).join(", ");
	return element("div", {}, element("div", { class: "gauge", role: "img", "aria-label": `Of ${bytesText(d.capacity_bytes)}: ${text}` },
		parts.map(([name, bytes, colour]) => element("span", { title: `${name}: ${bytesText(bytes)}`, style: `width:${100 * bytes / d.capacity_bytes}%;background:${colour}` }))),
		element("p", { class: "hint" }, `The ${bytesText(d.capacity_bytes)} of the GPU at the peak: ${text}.`));
}

function figures(app) {
	const state = app.documents.oom?.devices?.[app.device?.index ?? 0]?.state, d = app.documents.report.devices[app.device?.index ?? 0];
	const rows = state ? [["asked", state.asked_bytes], ["capacity", state.capacity_bytes], ["reserved by PyTorch", state.reserved_bytes],
		["allocated by tensors", state.allocated_bytes], ["cached, not in use", state.cached_bytes], ["outside PyTorch", state.outside_bytes], ["free", state.free_bytes], ["would have fitted at most", state.largest_fit_bytes]]
		: d ? [["capacity", d.capacity_bytes], ["reserved at the peak", d.reserved.peak_bytes], ["allocated at the peak", d.tensor.peak_bytes],
			["allocated at the end", d.tensor.live_at_end_bytes], ["in use on the GPU at the peak", d.residual.device_at_driver_peak_bytes]] : [];
	const shown = rows.filter(([, bytes]) => bytes != null);
	return element("div", { class: "card" }, element("h3", { style: "margin-top:0" }, state ? "When memory ran out" : "Figures"), gauge(d),
		element("dl", { class: "figures" }, shown.flatMap(([name, bytes]) => [element("dt", {}, name), element("dd", { "data-bytes": String(bytes) }, bytesText(bytes))])));
}

function drawVerdict(app) {
	const { report, oom, advise } = app.documents, failed = !!oom?.findings?.length;
	const findings = failed ? oom.findings : report.findings ?? [], section = $("verdict");
	section.replaceChildren(
		...(findings.length ? [findingCard(app, findings[0], true, failed)] : [peakCard(app, report)]),
		element("div", { class: "columns" }, figures(app), element("div", {}, holdersCard(app))),
		...findings.slice(1).map((f) => findingCard(app, f, false, failed)),
		adviceCard(advise, !failed) ?? "");
}
