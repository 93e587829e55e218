/* SPDX-License-Identifier: MIT */
/* The data: inflated, columns made whole, and what lived at a moment. */

async function readData() {
	const text = $("data").textContent.trim();
	const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	return JSON.parse(await new Response(stream).text());
}

/** A column has differences: their sums. */
function whole(column) {
	const values = new Float64Array(column.length);
	let value = 0;
	for (let i = 0; i < column.length; i++)
		values[i] = value += column[i];
	return values;
}

function wholeTable(columns) {
	const made = {};
	for (const [name, column] of Object.entries(columns))
		made[name] = Array.isArray(column) && typeof column[0] !== "object" ? whole(column) : column;
	return made;
}

/** Index of the last value that is not greater; -1: all are. */
function lastUpTo(values, x) {
	let low = 0, high = values.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (values[middle] <= x)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/** A recording's picture: texts and stacks, and its devices. */
class Picture {
	constructor(document) {
		this.texts = document.texts;
		this.categories = document.categories;
		this.phases = document.phases;
		this.duration = document.duration_ns;
		this.frames = wholeTable(document.frames);
		this.calls = wholeTable(document.calls);
		this.stacks = wholeTable(document.stacks);
		this.sources = document.sources;
		this.devices = document.devices.map((d) => new Device(this, d));
	}

	text(number) {
		return number ? this.texts[number - 1] : null;
	}

	frame(number) {
		const f = this.frames, i = number - 1;
		if (!number)
			return null;
		return { file: this.text(f.file[i]), line: f.line[i], function: this.text(f.function[i]), flags: f.flags[i] };
	}

	/** The frames of a stack, innermost first, as numbers. */
	stackFrames(stack) {
		const numbers = [];
		for (let call = stack ? this.stacks.call[stack - 1] : 0; call; call = this.calls.caller[call - 1])
			numbers.push(this.calls.frame[call - 1]);
		return numbers;
	}

	/** The line that stands for a stack. */
	site(stack) {
		return stack ? this.frame(this.stacks.site[stack - 1] || this.stackFrames(stack)[0]) : null;
	}

	/** Lines of source around a place, [{ line, text }]; null: they are not in this page. */
	source(file, line) {
		for (const stretch of this.sources ?? []) {
			const first = stretch.first;
			if (this.text(stretch.file) !== file || line < first || line >= first + stretch.lines.length)
				continue;
			const from = Math.max(first, line - 4), to = Math.min(first + stretch.lines.length - 1, line + 4);
			return Array.from({ length: to - from + 1 }, (_, i) => ({ line: from + i, text: stretch.lines[from + i - first] }));
		}
		return null;
	}
}

const FOREVER = -1; /* as a time of death: it was live at the end */

class Device {
	constructor(picture, d) {
		this.picture = picture;
		this.facts = d;
		this.points = wholeTable(d.points);
		this.points.categories = d.points.categories.map(whole);
		this.points.owners = d.points.owners.map((o) => ({ name: picture.text(o.owner) ?? "unknown", bytes: whole(o.bytes) }));
		this.steps = whole(d.steps.begin_ns);
		this.every = d.steps.every;
		this.capacity = d.capacity_bytes;
		this.failures = d.failures;
		this.driver = wholeTable({ ...d.driver, left_out: [] });
		this.driver_left_out = d.driver.left_out;
		this.hasTensors = d.has_tensors && !!d.blocks;
		if (this.hasTensors)
			this.readBlocks(d);
		else
			this.readDriverBlocks();
		this.peak = this.points.time_ns[this.peakPoint()] ?? 0;
		this.labels = {};
	}

	readBlocks(d) {
		const kinds = wholeTable(d.kinds), blocks = wholeTable(d.blocks), summed = wholeTable(d.summed);
		const large = blocks.bytes.length, all = large + summed.first.length, at = summed.time_ns;
		this.kinds = kinds;
		this.nrLarge = large;
		this.nrBlocks = d.nr_blocks;
		this.rows = { birth: new Float64Array(all), death: new Float64Array(all), bytes: new Float64Array(all),
			count: new Float64Array(all).fill(1), kind: new Float64Array(all), address: blocks.address,
			step: blocks.step, name: blocks.name, piece: new Float64Array(all) };
		for (let i = 0; i < all; i++) {
			const k = i - large, isLarge = k < 0;
			this.rows.birth[i] = isLarge ? blocks.birth_ns[i] : at[summed.first[k]];
			this.rows.death[i] = isLarge ? blocks.death_ns[i] : at[summed.last[k]] ?? FOREVER;
			this.rows.bytes[i] = isLarge ? blocks.bytes[i] : summed.bytes[k];
			this.rows.kind[i] = isLarge ? blocks.kind[i] : summed.kind[k];
			if (!isLarge) {
				this.rows.count[i] = summed.count[k];
				this.rows.piece[i] = summed.piece[k];
			}
			if (this.rows.death[i] === FOREVER)
				this.rows.death[i] = Infinity;
		}
		this.summedAt = at;
	}

	/** A program without PyTorch: what it took from the driver are its blocks. */
	readDriverBlocks() {
		const d = this.driver, n = d.bytes.length;
		this.kinds = { stack: d.stack, owner: d.owner };
		this.nrLarge = this.nrBlocks = n;
		this.rows = { birth: d.from_ns, death: d.until_ns.map((t) => t === FOREVER ? Infinity : t), bytes: d.bytes,
			count: new Float64Array(n).fill(1), kind: Float64Array.from({ length: n }, (_, i) => i), address: d.address };
		this.summedAt = [];
	}

	/** What is drawn as allocated: by tensors, else from the driver. */
	get total() {
		return this.hasTensors ? this.points.allocated_bytes : this.points.driver_bytes;
	}

	peakPoint() {
		let best = 0;
		const total = this.total;
		for (let i = 1; i < total.length; i++)
			if (total[i] > total[best])
				best = i;
		return best;
	}

	get name() {
		const f = this.facts;
		return `${f.rank != null ? `rank ${f.rank}, ` : ""}GPU ${f.device}${f.name ? ", " + f.name : ""}`;
	}

	/** What a kind is called under a key: "category", "name", "stack", "module", "shape", "phase". */
	label(kind, by) {
		const of = this.labels[by] ??= [];
		return of[kind] ??= this.makeLabel(kind, by);
	}

	makeLabel(kind, by) {
		const p = this.picture, k = this.kinds;
		switch (by) {
		case "category":
			return k.category ? wordsOf(p.categories[k.category[kind]]) : p.text(k.owner[kind]) ?? "not known";
		case "name":
			return this.nameOf(kind) ?? `no name: ${placeText(p.site(k.stack[kind]))}`;
		case "module":
			return (k.module && p.text(k.module[kind])) || "in no module";
		case "shape":
			return (k.shape && p.text(k.shape[kind])) || "no shape is known";
		case "phase":
			return k.phase ? p.phases[k.phase[kind]] : "not known";
		default:
			return placeText(p.site(k.stack[kind]));
		}
	}

	/** What the program calls a kind; null where it only says that something else than Python holds it. */
	nameOf(kind) {
		const name = this.kinds.name && this.picture.text(this.kinds.name[kind]);
		return name && !name.startsWith("held outside of Python") ? name : null;
	}

	/** The rows that live at a time: their numbers. */
	livingAt(time) {
		const { birth, death } = this.rows, found = [];
		for (let i = 0; i < birth.length; i++)
			if (birth[i] <= time && time < death[i])
				found.push(i);
		return found;
	}

	/** The point that holds at a time. */
	pointAt(time) {
		return Math.max(0, lastUpTo(this.points.from_ns, time));
	}

	stepAt(time) {
		const i = lastUpTo(this.steps, time);
		return i < 0 ? null : i * this.every + 1;
	}
}
