/* SPDX-License-Identifier: MIT */
/* The lives of the largest blocks, a bar for each, under the same time as above. */

const LIVES_MAX = 160;

class Lives {
	constructor(app) {
		this.app = app;
		this.canvas = $("lives");
		this.chosen = -1;
		this.bars = [];
		this.canvas.addEventListener("click", (e) => this.pick(this.bars.find((b) => e.offsetY >= b.y && e.offsetY < b.y + this.pitch)?.row ?? -1));
		this.canvas.addEventListener("keydown", (e) => this.pressed(e));
		new ResizeObserver(() => this.draw()).observe(this.canvas);
	}

	use(device) {
		this.device = device;
		this.pick(-1);
	}

	/** Those of the view that hold most, by their bytes and for how long, in the order of birth. */
	visible(max) {
		const { birth, death, bytes } = this.device.rows, { from, to } = this.app.timeline, found = [];
		for (let i = 0; i < this.device.nrLarge; i++)
			if (birth[i] < to && death[i] > from)
				found.push({ row: i, weight: bytes[i] * (Math.min(death[i], to) - Math.max(birth[i], from)) });
		found.sort((a, b) => b.weight - a.weight || a.row - b.row);
		return found.slice(0, max).map((f) => f.row).sort((a, b) => birth[a] - birth[b]);
	}

	draw() {
		if (!this.device)
			return;
		const { context: c, width, height } = prepare(this.canvas), t = this.app.timeline, d = this.device;
		const rows = this.visible(Math.min(LIVES_MAX, Math.floor((height - 4) / 3)));
		this.pitch = Math.min(16, (height - 4) / Math.max(1, rows.length));
		c.save();
		c.beginPath();
		c.rect(margin.left, 0, width - margin.left - margin.right, height);
		c.clip();
		this.bars = rows.map((row, i) => ({ row, y: 2 + i * this.pitch }));
		for (const { row, y } of this.bars) {
			const x = t.x(d.rows.birth[row]), end = t.x(Math.min(d.rows.death[row], t.end));
			c.fillStyle = this.colour(row);
			c.fillRect(x, y, Math.max(1.5, end - x), Math.max(1.5, this.pitch - 1));
			if (row === this.chosen) {
				c.strokeStyle = style("--text");
				c.lineWidth = 2;
				c.strokeRect(x - 1, y - 1, Math.max(3, end - x + 2), this.pitch + 1);
			}
		}
		c.fillStyle = style("--accent");
		c.fillRect(t.x(this.app.time) - 0.75, 0, 1.5, height);
		c.restore();
		c.fillStyle = style("--soft");
		c.textAlign = "right";
		c.textBaseline = "middle";
		let last = -99;
		for (const { row, y } of this.bars)
			if (y - last >= 15) {
				c.fillText(bytesText(d.rows.bytes[row]), margin.left - 8, y + this.pitch / 2);
				last = y;
			}
	}

	colour(row) {
		const d = this.device, kind = d.rows.kind[row];
		return d.hasTensors ? categoryColours[d.picture.categories[d.kinds.category[kind]]] ?? OTHER_COLOUR : palette[0];
	}

	pressed(e) {
		const at = this.bars.findIndex((b) => b.row === this.chosen), by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
		if (!by || !this.bars.length)
			return;
		e.preventDefault();
		this.pick(this.bars[Math.max(0, Math.min(this.bars.length - 1, at < 0 ? 0 : at + by))].row);
	}

	/** Tell all of a block; -1: of none. */
	pick(row) {
		const card = $("block"), d = this.device;
		this.chosen = row;
		card.hidden = row < 0;
		if (row >= 0)
			card.replaceChildren(...blockDetails(this.app, d, row));
		this.draw();
	}
}

function stackList(picture, stack) {
	const frames = picture.stackFrames(stack).map((n) => picture.frame(n));
	return element("ol", { class: "stack mono", "aria-label": "stack, innermost first" }, frames.slice(0, 60).map((f) => {
		const isOwn = !(f.flags & 2) && !(f.flags & 16);
		return element("li", { class: !isOwn && "frame", title: f.file }, (f.flags & 8 ? "from forward " : "") + (f.flags & 16 ? "frames left out" : placeText(f)));
	}));
}

function blockDetails(app, d, row) {
	const { rows, picture, kinds } = d, kind = rows.kind[row], stack = kinds.stack[kind], site = picture.site(stack);
	const name = rows.name && picture.text(rows.name[row]), birth = rows.birth[row], death = rows.death[row], step = rows.step?.[row];
	const facts = [["size", `${bytesText(rows.bytes[row])} (${rows.bytes[row].toLocaleString("en")} bytes)`], ["for", d.label(kind, "category")],
		["name", name], ["module", d.hasTensors && d.label(kind, "module")], ["allocated", `after ${timeText(birth)}${step ? `, in step ${step}` : ""}${d.hasTensors ? `, in ${d.label(kind, "phase")}` : ""}`],
		["freed", death === Infinity ? "not before the end" : `after ${timeText(death)}, it lived ${timeText(death - birth)}`], ["address", rows.address && "0x" + rows.address[row].toString(16)]];
	return [element("h3", { style: "margin-top:0" }, "Block allocated at ", element("span", { class: "mono" }, placeText(site))),
		element("dl", { class: "figures" }, facts.filter(([, v]) => v).flatMap(([n, v]) => [element("dt", {}, n), element("dd", { class: "mono" }, v)])),
		element("button", { type: "button", onclick: () => app.timeline.goTo(birth) }, "Go to its allocation"),
		sourceBlock(picture, site, rows.bytes[row]) ?? "", stackList(picture, stack)];
}
