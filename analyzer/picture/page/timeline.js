/* SPDX-License-Identifier: MIT */
/* Memory over time, stacked; zoom, pan, and the moment that is looked at. */

const margin = { left: 74, right: 14, top: 22, bottom: 34 };
const phaseColours = { other: "#9aa0a6", init: "#76b7b2", forward: "#f28e2b", backward: "#4e79a7", optimizer: "#b07aa1" };
const STACKED_MAX = 11;

class Timeline {
	constructor(app) {
		this.app = app;
		this.canvas = $("series");
		this.hidden = new Set();
		this.by = "category";
		this.redraw = whenIdle(() => {
			this.draw();
			app.lives.draw();
		});
		this.zoom = d3.zoom().scaleExtent([1, 1e8]).on("zoom", (event) => this.zoomed(d3.event ?? event));
		d3.select(this.canvas).call(this.zoom).on("dblclick.zoom", null);
		this.canvas.addEventListener("click", (e) => this.clicked(e));
		this.canvas.addEventListener("mousemove", (e) => this.hover(e));
		this.canvas.addEventListener("mouseleave", () => { $("tip").hidden = true; });
		this.canvas.addEventListener("keydown", (e) => this.pressed(e));
		$("zoom-in").onclick = () => this.scaleBy(2);
		$("zoom-out").onclick = () => this.scaleBy(0.5);
		$("zoom-all").onclick = () => this.show(0, this.end);
		$("step-back").onclick = () => this.goStep(-1);
		$("step-on").onclick = () => this.goStep(1);
		$("to-peak").onclick = () => this.goTo(this.peakTime());
		$("to-failure").onclick = () => this.goTo(this.device.failures.at(-1).time_ns);
		$("colour-by").onchange = (e) => {
			this.by = e.target.value;
			this.hidden.clear();
			this.stack();
			this.redraw();
		};
		new ResizeObserver(() => this.show(this.from, this.to)).observe(this.canvas);
	}

	/** Begin anew with a device. */
	use(device) {
		this.device = device;
		this.end = Math.max(1, device.picture.duration);
		this.from = 0;
		this.to = this.end;
		const choices = device.hasTensors ? ["category", "name", "stack", "module", "shape", "phase", "library"] : ["category", "stack"];
		if (!choices.includes(this.by))
			this.by = "category";
		$("colour-by").replaceChildren(...choices.map((c) => element("option", { value: c, selected: c === this.by },
			c === "stack" ? "line" : c === "category" && !device.hasTensors ? "owner" : c)));
		$("to-failure").hidden = !device.failures.length;
		this.stack();
		this.show(...this.busySpan());
	}

	/** From the first allocation to the last change: before and after it nothing is to be seen. */
	busySpan() {
		const { total, points } = this.device, from = points.from_ns, n = total.length;
		let first = 0, last = n - 1;
		while (first < n && !total[first])
			first++;
		while (last > first && total[last] === total[last - 1])
			last--;
		if (first >= last)
			return [0, this.end];
		const edge = 0.02 * (from[last] - from[first]);
		return [from[first] - edge, from[last] + 3 * edge];
	}

	peakTime() {
		return this.device.points.time_ns[this.device.peakPoint()];
	}

	/* ---- what is stacked ---- */

	stack() {
		const d = this.device;
		this.total = this.by === "library" ? d.points.driver_bytes.map((b, i) => Math.max(b, d.points.used_bytes[i])) : d.total;
		this.layers = this.by === "library" ? this.layersOfLibraries() : this.by === "category" && d.hasTensors
			? d.picture.categories.map((name, i) => ({ name: wordsOf(name), colour: categoryColours[name] ?? OTHER_COLOUR, bytes: d.points.categories[i] })).filter((l) => l.bytes.some((b) => b > 0))
			: this.layersOf(this.by);
		this.fillUp();
		this.drawLegend();
	}

	/** What each library has taken from the driver, and what is in use beside that: context, code, other processes. */
	layersOfLibraries() {
		const { owners, driver_bytes, used_bytes } = this.device.points;
		const layers = owners.map((o, i) => ({ name: wordsOf(o.name), colour: palette[i % palette.length], bytes: o.bytes.slice() }));
		if (used_bytes.some((b) => b > 0))
			layers.push({ name: "context, code, other processes", colour: OTHER_COLOUR, bytes: driver_bytes.map((b, i) => Math.max(0, used_bytes[i] - b)) });
		return layers;
	}

	/** By another key: from the rows, each counted where its life meets a point's. */
	layersOf(by) {
		const d = this.device, from = d.points.from_ns, n = from.length, { birth, death, bytes, kind } = d.rows, of = new Map();
		for (let i = 0; i < birth.length; i++) {
			const label = d.label(kind[i], by), first = Math.max(0, lastUpTo(from, birth[i]));
			let layer = of.get(label);
			if (!layer)
				of.set(label, layer = { name: label, bytes: new Float64Array(n + 1), sum: 0 });
			const last = death[i] === Infinity ? n : Math.max(first + 1, lastUpTo(from, death[i]));
			layer.bytes[first] += bytes[i];
			layer.bytes[last] -= bytes[i];
			layer.sum += bytes[i] * (last - first);
		}
		const layers = [...of.values()].sort((a, b) => b.sum - a.sum);
		for (const layer of layers)
			for (let i = 1; i < n; i++)
				layer.bytes[i] += layer.bytes[i - 1];
		const shown = layers.slice(0, STACKED_MAX), rest = layers.slice(STACKED_MAX);
		shown.forEach((layer, i) => { layer.colour = palette[i]; });
		if (rest.length) {
			const other = { name: countText(rest.length, "other"), colour: OTHER_COLOUR, bytes: new Float64Array(n) };
			for (const layer of rest)
				for (let i = 0; i < n; i++)
					other.bytes[i] += layer.bytes[i];
			shown.push(other);
		}
		return shown;
	}

	/** The layers add up to what was allocated: what no row tells is a layer, too. */
	fillUp() {
		const total = this.total, missing = new Float64Array(total.length);
		let most = 0;
		for (let i = 0; i < total.length; i++) {
			let sum = 0;
			for (const layer of this.layers)
				sum += layer.bytes[i];
			if (sum > total[i] && sum)
				for (const layer of this.layers)
					layer.bytes[i] *= total[i] / sum;
			else
				missing[i] = total[i] - sum;
			most = Math.max(most, missing[i]);
		}
		if (most > 0)
			this.layers.push({ name: "not listed", colour: "#c3c7cb", bytes: missing });
	}

	/** What was taken from the driver beside PyTorch's segments; where there are no tensors, that is stacked. */
	drawsDriver() {
		const { reserved_bytes, driver_bytes } = this.device.points;
		return this.device.hasTensors && driver_bytes.some((b, i) => b !== reserved_bytes[i]);
	}

	drawLegend() {
		const d = this.device, lines = [];
		if (d.hasTensors)
			lines.push(["reserved by PyTorch", "rule", "--text"]);
		if (this.drawsDriver())
			lines.push(["taken from the driver", "rule dots", "--soft"]);
		if (d.points.used_bytes.some((b) => b > 0))
			lines.push(["in use on the GPU", "rule dash", "--soft"]);
		if (d.capacity)
			lines.push([`capacity ${bytesText(d.capacity)}`, "rule", "--alarm"]);
		if (this.app.grows)
			lines.push(["the least of each step", "rule dots", "--accent"]);
		$("legend").replaceChildren(...this.layers.map((layer) => element("li", {}, element("button", { type: "button", "aria-pressed": "true",
			title: layer.name, onclick: (e) => {
				if (!this.hidden.delete(layer))
					this.hidden.add(layer);
				e.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(layer)));
				this.redraw();
			} }, element("span", { class: "chip", style: `background:${layer.colour}` }), layer.name.length > 48 ? layer.name.slice(0, 46) + "…" : layer.name))),
			...lines.map(([name, shape, colour]) => element("li", { class: "plain" }, element("span", { class: `chip ${shape}`, style: `border-color:var(${colour})` }), name)),
			...(d.hasTensors ? Object.entries(phaseColours).filter(([name]) => name !== "other").map(([name, colour]) =>
				element("li", { class: "plain" }, element("span", { class: "chip", style: `background:${colour};height:.35em` }), name)) : []));
	}

	/* ---- the view ---- */

	get width() {
		return Math.max(50, this.canvas.getBoundingClientRect().width - margin.left - margin.right);
	}

	/** Show this span of time. */
	show(from, to) {
		if (!this.device)
			return;
		const least = Math.min(1000, this.end), span = Math.min(this.end, Math.max(least, to - from));
		from = Math.max(0, Math.min(from, this.end - span));
		const scale = this.end / span, w = this.width;
		const area = [[margin.left, 0], [margin.left + w, 1]];
		this.zoom.extent(area).translateExtent(area);
		this.zoom.transform(d3.select(this.canvas), d3.zoomIdentity.translate(margin.left - scale * (margin.left + from / this.end * w), 0).scale(scale));
	}

	zoomed(event) {
		const base = d3.scaleLinear([0, this.end], [margin.left, margin.left + this.width]);
		[this.from, this.to] = event.transform.rescaleX(base).domain();
		this.redraw();
	}

	scaleBy(factor) {
		const now = this.app.time, middle = now > this.from && now < this.to ? now : (this.from + this.to) / 2;
		const left = (middle - this.from) / factor, right = (this.to - middle) / factor;
		this.show(middle - left, middle + right);
	}

	/** Look at a time, and bring it into view. */
	goTo(time) {
		if (time < this.from || time > this.to) {
			const span = this.to - this.from;
			this.show(time - span / 2, time + span / 2);
		}
		this.app.look(time);
	}

	goStep(by) {
		const steps = this.device.steps, i = lastUpTo(steps, this.app.time) + by;
		if (i < 0 || i >= steps.length)
			return;
		/* The fullest moment of that step tells more than its beginning. */
		const until = steps[i + 1] ?? this.end, times = this.device.points.time_ns, total = this.device.total;
		let best = -1;
		for (let k = Math.max(0, lastUpTo(times, steps[i])); k < times.length && times[k] < until; k++)
			if (times[k] >= steps[i] && (best < 0 || total[k] > total[best]))
				best = k;
		this.goTo(best < 0 ? steps[i] : times[best]);
	}

	timeAt(x) {
		return this.from + (x - margin.left) / this.width * (this.to - this.from);
	}

	clicked(e) {
		if (e.defaultPrevented)
			return;
		this.app.look(this.nearest(e.offsetX));
	}

	/** The fullest moment within a few pixels, else the time itself. */
	nearest(x) {
		const a = this.timeAt(x - 2), b = this.timeAt(x + 2), times = this.device.points.time_ns, total = this.device.total;
		let best = -1;
		for (let i = Math.max(0, lastUpTo(times, a)); i < times.length && times[i] <= b; i++)
			if (times[i] >= a && (best < 0 || total[i] > total[best]))
				best = i;
		return best < 0 ? Math.max(0, Math.min(this.end, this.timeAt(x))) : times[best];
	}

	pressed(e) {
		const span = this.to - this.from, times = this.device.points.time_ns, i = lastUpTo(times, this.app.time);
		const actions = {
			"+": () => this.scaleBy(2), "=": () => this.scaleBy(2), "-": () => this.scaleBy(0.5), Home: () => this.show(0, this.end),
			End: () => this.goTo(this.peakTime()), PageDown: () => this.goStep(1), PageUp: () => this.goStep(-1),
			ArrowLeft: () => e.shiftKey ? this.show(this.from - span / 5, this.to - span / 5) : this.goTo(times[Math.max(0, times[i] < this.app.time ? i : i - 1)]),
			ArrowRight: () => e.shiftKey ? this.show(this.from + span / 5, this.to + span / 5) : this.goTo(times[Math.min(times.length - 1, i + 1)]),
		};
		if (!actions[e.key] || e.ctrlKey || e.metaKey || e.altKey)
			return;
		e.preventDefault();
		actions[e.key]();
	}

	hover(e) {
		const tip = $("tip"), time = this.timeAt(e.offsetX), d = this.device;
		if (time < 0 || time > this.end) {
			tip.hidden = true;
			return;
		}
		const i = d.pointAt(time), layers = this.layers.filter((l) => l.bytes[i] > 0).sort((a, b) => b.bytes[i] - a.bytes[i]).slice(0, 6);
		tip.replaceChildren(element("strong", {}, `${timeText(time)}: ${bytesText(this.total[i])}`), ...layers.map((l) =>
			element("div", {}, element("span", { class: "chip", style: `background:${l.colour}` }), `${l.name} ${bytesText(l.bytes[i])}`)));
		tip.hidden = false;
		const left = e.offsetX + 16 + tip.offsetWidth > this.canvas.clientWidth ? e.offsetX - tip.offsetWidth - 12 : e.offsetX + 16;
		tip.style.left = `${Math.max(0, left)}px`;
		tip.style.top = "28px";
	}

	/* ---- drawing ---- */

	/** For each pixel the point to be drawn: the fullest of those that hold in its span of time; -1: there is none yet. */
	columns(width) {
		const from = this.device.points.from_ns, total = this.total, n = Math.ceil(width), chosen = new Int32Array(n);
		let next = lastUpTo(from, this.from) + 1;
		for (let x = 0; x < n; x++) {
			const end = this.from + (x + 1) / width * (this.to - this.from);
			let best = next - 1;
			for (; next < from.length && from[next] < end; next++)
				if (best < 0 || total[next] > total[best])
					best = next;
			chosen[x] = best;
		}
		return chosen;
	}

	draw() {
		if (!this.device)
			return;
		const { context: c, width, height } = prepare(this.canvas), d = this.device, p = d.points, w = width - margin.left - margin.right;
		const chosen = this.columns(w), floor = height - margin.bottom, shown = this.layers.filter((l) => !this.hidden.has(l));
		let top = 1;
		for (const i of chosen)
			if (i >= 0)
				top = Math.max(top, this.total[i], p.reserved_bytes[i], p.driver_bytes[i], p.used_bytes[i]);
		if (d.capacity && d.capacity < 1.5 * top)
			top = Math.max(top, d.capacity);
		const y = d3.scaleLinear([0, top * 1.06], [floor, margin.top]);
		this.y = y;
		this.drawAxes(c, width, height, y);
		c.save();
		c.beginPath();
		c.rect(margin.left, 0, w, floor + 1);
		c.clip();
		const base = new Float64Array(chosen.length);
		for (const layer of shown)
			this.drawLayer(c, chosen, layer, base, y);
		if (d.hasTensors)
			this.drawLine(c, chosen, p.reserved_bytes, y, style("--text"), [], 1.5);
		if (this.drawsDriver())
			this.drawLine(c, chosen, p.driver_bytes, y, style("--soft"), [2, 3], 1.2);
		if (p.used_bytes.some((b) => b > 0))
			this.drawLine(c, chosen, p.used_bytes, y, style("--soft"), [6, 3], 1.2);
		this.drawMarks(c, y, floor, chosen);
		c.restore();
		if (d.capacity && d.capacity <= top * 1.06) {
			this.rule(c, margin.left, width - margin.right, y(d.capacity), style("--alarm"));
		}
	}

	rule(c, from, to, y, colour) {
		c.strokeStyle = colour;
		c.setLineDash([]);
		c.lineWidth = 1.5;
		c.beginPath();
		c.moveTo(from, y);
		c.lineTo(to, y);
		c.stroke();
	}

	drawLayer(c, chosen, layer, base, y) {
		c.fillStyle = layer.colour;
		c.beginPath();
		c.moveTo(margin.left, y(base[0]));
		for (let x = 0; x < chosen.length; x++) {
			const top = y(base[x] + (chosen[x] < 0 ? 0 : layer.bytes[chosen[x]]));
			c.lineTo(margin.left + x, top);
			c.lineTo(margin.left + x + 1, top);
		}
		for (let x = chosen.length; x-- > 0;) {
			const bottom = y(base[x]);
			c.lineTo(margin.left + x + 1, bottom);
			c.lineTo(margin.left + x, bottom);
			base[x] += chosen[x] < 0 ? 0 : layer.bytes[chosen[x]];
		}
		c.fill();
	}

	drawLine(c, chosen, bytes, y, colour, dash, width) {
		c.strokeStyle = colour;
		c.setLineDash(dash);
		c.lineWidth = width;
		c.beginPath();
		let begun = false;
		for (let x = 0; x < chosen.length; x++) {
			if (chosen[x] < 0)
				continue;
			c[begun ? "lineTo" : "moveTo"](margin.left + x, y(bytes[chosen[x]]));
			c.lineTo(margin.left + x + 1, y(bytes[chosen[x]]));
			begun = true;
		}
		c.stroke();
		c.setLineDash([]);
	}

	x(time) {
		return margin.left + (time - this.from) / (this.to - this.from) * this.width;
	}

	drawAxes(c, width, height, y) {
		const floor = height - margin.bottom;
		c.fillStyle = style("--soft");
		c.strokeStyle = style("--line");
		c.lineWidth = 1;
		c.textAlign = "right";
		c.textBaseline = "middle";
		for (const tick of byteTicks(y.domain()[1], 6)) {
			const at = Math.round(y(tick)) + 0.5;
			c.beginPath();
			c.moveTo(margin.left, at);
			c.lineTo(width - margin.right, at);
			c.stroke();
			c.fillText(tick ? bytesText(tick) : "0", margin.left - 8, at);
		}
		c.textAlign = "center";
		c.textBaseline = "top";
		const ticks = d3.ticks(this.from / 1e9, this.to / 1e9, Math.max(2, Math.floor(this.width / 110)));
		const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1, digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));
		for (const tick of ticks)
			c.fillText(tick >= 600 && step >= 1 ? timeText(tick * 1e9) : `${tick.toFixed(digits)} s`, this.x(tick * 1e9), floor + 17);
	}

	/** Steps, phases, growth, failures, and the moment that is looked at. */
	drawMarks(c, y, floor, chosen) {
		const d = this.device, steps = d.steps;
		let last = -1e9;
		c.textBaseline = "top";
		c.textAlign = "left";
		const first = Math.max(0, lastUpTo(steps, this.from)), until = lastUpTo(steps, this.to);
		const each = Math.max(1, Math.ceil((until - first + 1) * 4 / this.width)); /* no two ticks within four pixels */
		for (let i = first - first % each; i <= until; i += each) {
			const x = this.x(steps[i]);
			c.fillStyle = style("--soft");
			c.fillRect(x, floor - 5, 1, 5);
			if (x - last > 46 && x >= margin.left) {
				c.fillText(`${last < 0 ? "step " : ""}${i * d.every + 1}`, x + 3, 7);
				c.fillRect(x, 7, 1, floor - 7 > 0 ? 8 : 0);
				last = x;
			}
		}
		if (d.hasTensors)
			for (let x = 0; x < chosen.length; x++) {
				const phase = chosen[x] < 0 ? null : d.picture.phases[d.points.phase[chosen[x]]];
				if (!phase || phase === "other")
					continue;
				c.fillStyle = phaseColours[phase];
				c.fillRect(margin.left + x, 0, 1, 5);
			}
		if (this.app.grows && steps.length > 1)
			this.drawFloor(c, y);
		c.fillStyle = c.strokeStyle = style("--alarm");
		for (const failure of d.failures) {
			const x = this.x(failure.time_ns);
			c.fillRect(x - 1, 5, 2, floor - 5);
			c.textAlign = x > margin.left + this.width / 2 ? "right" : "left";
			c.fillText(`asked ${bytesText(failure.asked_bytes)}`, x + (c.textAlign === "left" ? 5 : -5), margin.top);
		}
		const x = this.x(this.app.time);
		c.fillStyle = style("--accent");
		c.fillRect(x - 0.75, 0, 1.5, floor);
		c.beginPath();
		c.moveTo(x - 5, 0);
		c.lineTo(x + 5, 0);
		c.lineTo(x, 7);
		c.fill();
	}

	/** The least that each step held, of many steps some together: what is left where all else was let go. */
	floors() {
		const { steps, points } = this.device, times = points.time_ns, least = [], each = Math.ceil(steps.length / 100);
		for (let i = 0, k = 0; i < steps.length; i += each) {
			const until = steps[i + each] ?? Infinity;
			let min = Infinity;
			for (; k < times.length && times[k] < until; k++)
				if (times[k] >= steps[i])
					min = Math.min(min, points.least_bytes[k]);
			if (min < Infinity)
				least.push([steps[i], min]);
		}
		return least;
	}

	drawFloor(c, y) {
		c.strokeStyle = style("--accent");
		c.lineWidth = 2;
		c.setLineDash([2, 3]);
		c.beginPath();
		for (const [time, bytes] of this.floors().slice(1))
			c.lineTo(this.x(time), y(bytes));
		c.stroke();
		c.setLineDash([]);
	}
}

/** Multiples of a round number of bytes, about so many up to the top. */
function byteTicks(top, count) {
	const round = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512];
	let unit = 1;
	while (top / count > 512 * unit)
		unit *= 1024;
	const step = unit * (round.find((r) => r * unit >= top / count) ?? 1024);
	return d3.range(0, top, step);
}
