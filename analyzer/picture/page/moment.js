/* SPDX-License-Identifier: MIT */
/* What lived at the moment: a table of groups, searched, and the same as an icicle. */

const GROUPS_FIRST = 25, GROUPS_MAX = 500; /* rows at first, and when all are asked for */

/** Text with what was searched for marked. */
function marked(text, wanted) {
	const at = wanted ? text.toLowerCase().indexOf(wanted) : -1;
	return at < 0 ? text : [text.slice(0, at), element("mark", {}, text.slice(at, at + wanted.length)), text.slice(at + wanted.length)];
}

class Moment {
	constructor(app) {
		this.app = app;
		this.by = "name";
		$("group-by").onchange = (e) => { this.by = e.target.value; this.drawTable(); };
		$("search").oninput = () => this.drawTable();
		$("all-groups").onclick = () => { this.wantsAll = !this.wantsAll; this.drawTable(); };
	}

	use(device) {
		this.device = device;
		const choices = device.hasTensors ? ["name", "stack", "module", "shape", "category", "phase"] : ["stack", "category"];
		if (!choices.includes(this.by))
			this.by = choices[0];
		if (device.hasTensors && !device.kinds.name.some((n) => n) && this.by === "name")
			this.by = "stack";
		$("group-by").replaceChildren(...choices.map((c) => element("option", { value: c, selected: c === this.by },
			c === "stack" ? "line" : c === "category" && !device.hasTensors ? "owner" : c)));
	}

	/** Look at this time. */
	look(time) {
		const d = this.device, i = d.pointAt(time), step = d.stepAt(time), total = d.total[i];
		this.time = time;
		this.rows = d.livingAt(time);
		this.listed = this.rows.reduce((sum, row) => sum + d.rows.bytes[row], 0);
		this.total = total;
		const where = `After ${(time / 1e9).toFixed(6)} s${step ? `, in step ${step}` : ""}${d.hasTensors ? `, in ${d.picture.phases[d.points.phase[i]]}` : ""}`;
		const text = `${where}: ${bytesText(total)} ${d.hasTensors ? "allocated" : "taken from the driver"}`
			+ (d.hasTensors ? `, ${bytesText(d.points.reserved_bytes[i])} reserved` : "")
			+ (d.points.used_bytes[i] ? `, ${bytesText(d.points.used_bytes[i])} in use on the GPU` : "") + ".";
		$("readout").textContent = text;
		$("moment-line").textContent = text;
		this.drawTable();
	}

	groups() {
		const d = this.device, of = new Map();
		for (const row of this.rows) {
			const kind = d.rows.kind[row], label = d.label(kind, this.by);
			let group = of.get(label);
			if (!group)
				of.set(label, group = { label, bytes: 0, count: 0, rows: [], categories: new Map(), most: -1 });
			group.bytes += d.rows.bytes[row];
			group.count += d.rows.count[row];
			group.rows.push(row);
			if (group.most < 0 || d.rows.bytes[row] > d.rows.bytes[group.most])
				group.most = row;
			const category = d.label(kind, "category");
			group.categories.set(category, (group.categories.get(category) ?? 0) + d.rows.bytes[row]);
		}
		return [...of.values()].sort((a, b) => b.bytes - a.bytes);
	}

	/** Is what was typed in any of its texts? */
	matches(group, wanted) {
		const d = this.device;
		return group.label.toLowerCase().includes(wanted) || group.rows.some((row) => {
			const kind = d.rows.kind[row];
			return ["name", "stack", "module", "shape", "category"].some((by) => d.label(kind, by).toLowerCase().includes(wanted));
		});
	}

	drawTable() {
		const wanted = $("search").value.trim().toLowerCase(), all = this.groups();
		const groups = wanted ? all.filter((g) => this.matches(g, wanted)) : all, shown = groups.slice(0, this.wantsAll ? GROUPS_MAX : GROUPS_FIRST);
		const bytes = groups.reduce((sum, g) => sum + g.bytes, 0), missing = this.total - this.listed;
		$("found").textContent = wanted ? `${countText(groups.length, "group")}, ${bytesText(bytes)}` : "";
		const heads = [["Bytes", 1], ["Share", 1], ["Blocks", 1], ["Mostly"], [this.by === "stack" ? "Allocated at" : this.by.charAt(0).toUpperCase() + this.by.slice(1)]];
		if (this.by !== "stack")
			heads.push(["Largest allocated at"]);
		$("all-groups").hidden = groups.length <= GROUPS_FIRST;
		$("all-groups").textContent = this.wantsAll ? "Show the largest" : "Show more";
		$("groups").replaceChildren(
			element("caption", {}, `${countText(all.length, "group")}, largest first${groups.length > shown.length ? `; the first ${shown.length} are shown` : ""}${missing > 0.001 * this.total ? `; ${bytesText(missing)} in small blocks that are not listed` : ""}`),
			element("thead", {}, element("tr", {}, heads.map(([title, number]) => element("th", { scope: "col", class: number && "number" }, title)))),
			element("tbody", {}, shown.flatMap((g) => this.rowOf(g, heads.length, wanted))));
		this.app.icicle.draw();
	}

	rowOf(group, nrColumns, wanted) {
		const d = this.device, kind = d.rows.kind[group.most], [category] = [...group.categories].sort((a, b) => b[1] - a[1])[0];
		const more = element("tr", { class: "more", hidden: true }, element("td", { colspan: nrColumns }));
		const open = element("button", { type: "button", class: "open mono", "aria-expanded": "false", onclick: () => {
			more.hidden = !more.hidden;
			open.setAttribute("aria-expanded", String(!more.hidden));
			if (!more.hidden)
				more.firstChild.replaceChildren(...this.details(group));
		} }, marked(group.label, wanted));
		const site = d.label(kind, "stack");
		return [element("tr", {}, element("td", { class: "number" }, bytesText(group.bytes)), element("td", { class: "number" }, percentText(group.bytes, this.total)),
			element("td", { class: "number" }, group.count.toLocaleString("en")),
			element("td", {}, element("span", { class: "chip", style: `background:${categoryColours[category.replaceAll(" ", "_")] ?? OTHER_COLOUR}` }), category),
			element("td", {}, open), this.by !== "stack" && element("td", { class: "mono" }, marked(site, wanted))), more];
	}

	details(group) {
		const d = this.device, stack = d.kinds.stack[d.rows.kind[group.most]], site = d.picture.site(stack);
		const large = group.rows.filter((row) => row < d.nrLarge).sort((a, b) => d.rows.bytes[b] - d.rows.bytes[a]);
		return [sourceBlock(d.picture, site, group.bytes) ?? "",
			element("p", { class: "hint" }, `${large.length ? `${countText(large.length, "block")} one by one` : "No block is listed by itself"}${group.rows.length > large.length ? ", the others summed up" : ""}; the stack is that of the largest.`),
			element("div", { class: "bar" }, large.slice(0, 12).map((row) => element("button", { type: "button", onclick: () => {
				this.app.lives.pick(row);
				$("block").scrollIntoView({ block: "center" });
			} }, `${bytesText(d.rows.bytes[row])}${d.rows.name?.[row] ? " " + d.picture.text(d.rows.name[row]) : ""}`))),
			stackList(d.picture, stack)];
	}
}

/** From the outside in: modules by their path, names by their parts, shapes by what they are for, or lines from the program's first to the last. */
class Icicle {
	constructor(app) {
		this.app = app;
		this.by = "module";
		this.way = [];
		$("icicle-by").onchange = (e) => { this.by = e.target.value; this.way = []; this.draw(); };
		$("icicle").addEventListener("keydown", (e) => this.pressed(e));
		new ResizeObserver(() => this.draw()).observe($("icicle").parentElement);
	}

	use(device) {
		this.device = device;
		this.way = [];
		const choices = device.hasTensors ? ["module", "name", "stack", "shape"] : ["stack"];
		if (!choices.includes(this.by) || (this.by === "module" && !device.kinds.module?.some((m) => m)))
			this.by = "stack";
		$("icicle-by").replaceChildren(...choices.map((c) => element("option", { value: c, selected: c === this.by }, c === "stack" ? "calls" : c)));
	}

	path(kind) {
		const d = this.device, p = d.picture;
		if (this.by === "stack") {
			const frames = p.stackFrames(d.kinds.stack[kind]).map((n) => p.frame(n)).reverse();
			const own = frames.filter((f) => !(f.flags & 2) && !(f.flags & 16));
			return (own.length ? own : frames.slice(-6)).map(placeText);
		}
		const label = d.label(kind, this.by), category = d.label(kind, "category");
		if (this.by === "shape")
			return [label, category, d.label(kind, "stack")];
		return label.startsWith("no name") || label === "in no module" ? [label.startsWith("no name") ? "no name" : label, d.label(kind, "stack")]
			: [...label.split(/\.(?![^[]*\])/), category];
	}

	tree() {
		const d = this.device, root = { name: "all", children: new Map(), bytes: 0 };
		for (const row of this.app.moment.rows) {
			const kind = d.rows.kind[row];
			let node = root;
			for (const name of this.path(kind)) {
				let next = node.children.get(name);
				if (!next)
					node.children.set(name, next = { name, children: new Map(), own: 0, categories: new Map() });
				node = next;
				const category = d.hasTensors ? d.picture.categories[d.kinds.category[kind]] : "unknown";
				node.categories.set(category, (node.categories.get(category) ?? 0) + d.rows.bytes[row]);
			}
			node.own = (node.own ?? 0) + d.rows.bytes[row];
		}
		return root;
	}

	draw() {
		const box = $("icicle"), width = box.clientWidth;
		if (!this.device || !this.app.moment.rows || !width)
			return;
		const root = d3.hierarchy(this.tree(), (n) => [...n.children.values()]).sum((n) => n.own ?? 0).sort((a, b) => b.value - a.value);
		let top = root;
		for (const name of this.way)
			top = top.children?.find((n) => n.data.name === name) ?? top;
		const depth = Math.min(10, top.height), line = 26;
		d3.partition().size([width, 1])(root);
		const scale = width / Math.max(1e-9, top.x1 - top.x0), nodes = top.descendants().filter((n) => n !== top && n.depth - top.depth <= depth && (n.x1 - n.x0) * scale > 4).slice(0, 600);
		box.style.height = `${Math.max(1, depth) * line + 2}px`;
		box.replaceChildren(...nodes.map((n, i) => {
			const category = [...n.data.categories].sort((a, b) => b[1] - a[1])[0][0];
			const text = `${n.data.name}: ${bytesText(n.value)}, ${percentText(n.value, this.app.moment.total)}`;
			return element("button", { type: "button", role: "treeitem", "aria-level": n.depth - top.depth, tabindex: i ? "-1" : "0", title: text, "aria-label": text,
				style: `left:${(n.x0 - top.x0) * scale}px;width:${(n.x1 - n.x0) * scale}px;top:${(n.depth - top.depth - 1) * line}px;height:${line}px;background:${categoryColours[category] ?? OTHER_COLOUR}`,
				onclick: () => { this.way = n.ancestors().reverse().slice(1).map((a) => a.data.name); this.draw(); } },
			(n.x1 - n.x0) * scale > 40 ? text : "");
		}));
		$("crumbs").replaceChildren(...[["all", 0], ...this.way.map((name, i) => [name, i + 1])].flatMap(([name, i]) =>
			[i ? " › " : "", element("button", { type: "button", onclick: () => { this.way = this.way.slice(0, i); this.draw(); } }, name)]));
	}

	pressed(e) {
		const buttons = [...$("icicle").children], at = buttons.indexOf(document.activeElement), by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
		if (e.key === "Escape" || e.key === "Backspace") {
			this.way.pop();
			this.draw();
			$("icicle").firstChild?.focus();
		} else if (by && buttons[at + by]) {
			e.preventDefault();
			buttons[at + by].focus();
		}
	}
}
