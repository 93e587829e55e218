/* SPDX-License-Identifier: MIT */
/* Segments and blocks by address, at the moment. */

const ROWS_MAX = 120;

class AddressMap {
	constructor(app) {
		this.app = app;
		this.canvas = $("segments");
		this.places = [];
		this.canvas.addEventListener("mousemove", (e) => this.hover(e));
		this.canvas.addEventListener("mouseleave", () => { $("map-tip").hidden = true; });
		this.canvas.addEventListener("click", (e) => {
			const place = this.at(e);
			if (place?.row >= 0) {
				this.app.lives.pick(place.row);
				$("block").scrollIntoView({ block: "center" });
			}
		});
		new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
	}

	use(device) {
		this.device = device;
		$("map").hidden = !device.hasTensors || !device.driver.bytes.length;
		this.drawBlockers();
	}

	/** Pieces that lived then, by address, with what of blocks lies in each: what can be given back to the driver at once. */
	pieces() {
		const d = this.device, s = d.driver, time = this.app.time, live = [];
		for (let i = 0; i < s.bytes.length; i++)
			if (s.from_ns[i] <= time && (s.until_ns[i] === FOREVER || time < s.until_ns[i]))
				live.push({ place: i, address: s.address[i], bytes: s.bytes[i], isPage: !!s.is_page[i], owner: d.picture.text(s.owner[i]), held: 0, small: 0, smallBlocks: 0 });
		live.sort((a, b) => a.address - b.address);
		return live;
	}

	/** Neighbouring pages as one, with the blocks in them; those of no segment are summed up. */
	segments() {
		const d = this.device, pieces = this.pieces(), joined = [];
		for (const piece of pieces) {
			const before = joined.at(-1);
			if (before?.isPage && piece.isPage && before.owner === piece.owner && before.address + before.bytes === piece.address)
				before.bytes += piece.bytes;
			else
				joined.push({ address: piece.address, bytes: piece.bytes, isPage: piece.isPage, owner: piece.owner, blocks: [], small: 0, smallBlocks: 0, pieces: [] });
			joined.at(-1).pieces.push(piece);
		}
		const starts = Float64Array.from(joined, (j) => j.address), byPlace = new Map(joined.flatMap((segment) => segment.pieces.map((piece) => [piece.place, { segment, piece }])));
		this.elsewhere = 0;
		for (const row of this.app.moment.rows) {
			const bytes = d.rows.bytes[row], isLarge = row < d.nrLarge, address = isLarge ? d.rows.address[row] : null;
			const found = isLarge ? joined[lastUpTo(starts, address)] : byPlace.get(d.rows.piece[row] - 1);
			if (!found || (isLarge && address >= found.address + found.bytes)) {
				this.elsewhere += bytes;
			} else if (isLarge) {
				found.blocks.push(row);
				for (const piece of found.pieces)
					piece.held += Math.max(0, Math.min(address + bytes, piece.address + piece.bytes) - Math.max(address, piece.address));
			} else {
				for (const of of [found.segment, found.piece]) {
					of.small += bytes;
					of.smallBlocks += d.rows.count[row];
				}
				found.piece.held += bytes;
			}
		}
		return joined;
	}

	/** Does it keep the allocator from giving back what is at least half free? The same rule as that of `frag`. */
	isBlocker(segment, row) {
		const from = this.device.rows.address[row], to = from + this.device.rows.bytes[row];
		return segment.pieces.some((p) => p.address < to && from < p.address + p.bytes && 2 * p.held <= p.bytes);
	}

	draw() {
		if (!this.device || $("map").hidden || !this.app.moment.rows)
			return;
		const d = this.device, all = this.segments(), bySize = [...all].sort((a, b) => b.bytes - a.bytes).slice(0, ROWS_MAX);
		const shown = all.filter((s) => bySize.includes(s)), most = Math.max(1, ...shown.map((s) => s.bytes));
		const pitch = shown.length > 40 ? 9 : 14, total = all.reduce((sum, s) => sum + s.bytes, 0), pieces = all.flatMap((s) => s.pieces);
		this.canvas.style.height = `${shown.length * pitch + 8}px`;
		const { context: c, width } = prepare(this.canvas), scale = (width - margin.left - 10) / most;
		const free = this.hatching(c), alarm = style("--alarm");
		this.places = [];
		this.pitch = pitch;
		shown.forEach((segment, i) => {
			const y = 4 + i * pitch, isTorchs = segment.owner === "torch";
			c.fillStyle = isTorchs ? free : style("--soft");
			c.fillRect(margin.left, y, Math.max(1, segment.bytes * scale), pitch - 2);
			this.places.push({ segment, row: -1, x: margin.left, width: segment.bytes * scale, y });
			if (!isTorchs && pitch > 10 && segment.bytes * scale > 60) {
				c.fillStyle = style("--page");
				c.textAlign = "left";
				c.textBaseline = "middle";
				c.fillText(segment.owner ?? "unknown", margin.left + 6, y + pitch / 2 - 1);
			}
			for (const row of segment.blocks) {
				const x = margin.left + (d.rows.address[row] - segment.address) * scale, w = Math.max(1, d.rows.bytes[row] * scale);
				c.fillStyle = this.app.lives.colour(row);
				c.fillRect(x, y, w, pitch - 2);
				if (this.isBlocker(segment, row)) {
					c.strokeStyle = alarm;
					c.lineWidth = 2;
					c.strokeRect(x, y, Math.max(2, w), pitch - 2);
				}
				this.places.push({ segment, row, x, width: w, y });
			}
			for (const piece of segment.pieces.filter((p) => p.small)) {
				const x = margin.left + (piece.address - segment.address) * scale;
				c.fillStyle = 2 * piece.held <= piece.bytes ? alarm : style("--text");
				c.fillRect(x, y + pitch - 5, Math.max(2, piece.small * scale), 3);
			}
			if (pitch > 10 || i % 2 === 0) {
				c.fillStyle = style("--soft");
				c.textAlign = "right";
				c.textBaseline = "middle";
				c.fillText(bytesText(segment.bytes), margin.left - 8, y + pitch / 2 - 1);
			}
		});
		this.tell(all, pieces, total, d.driver_left_out, all.length - shown.length);
	}

	/** In words: how much there was, what fills it, what keeps the rest, and what is not drawn. */
	tell(all, pieces, total, leftOut, notDrawn) {
		const d = this.device, of = (list, key) => list.reduce((sum, p) => sum + p[key], 0), torchs = pieces.filter((p) => p.owner === "torch");
		const large = all.flatMap((s) => s.blocks), sparse = torchs.filter((p) => p.held && 2 * p.held <= p.bytes);
		const least = Math.min(...large.map((row) => d.rows.bytes[row])), smallBlocks = of(all, "smallBlocks"), kept = of(sparse, "bytes") - of(sparse, "held");
		$("map-line").textContent = [`${countText(pieces.length, "piece")} of ${bytesText(total)} taken from the driver after ${timeText(this.app.time)}; PyTorch's have ${bytesText(of(torchs, "bytes"))}, of which blocks fill ${bytesText(of(torchs, "held"))}:`,
			`${countText(large.length, "block")} one by one${large.length ? `, the least of ${bytesText(least)}` : ""}${smallBlocks ? `, and ${bytesText(of(all, "small"))} in ${countText(smallBlocks, "small block")} summed up` : ""}.`,
			kept && `${bytesText(kept)} is kept free by few blocks in ${countText(sparse.length, "piece")}.`,
			this.elsewhere && `${bytesText(this.elsewhere)} of blocks lies in pieces that are not listed.`,
			notDrawn && `${countText(notDrawn, "smaller piece")} not drawn.`, leftOut && `${countText(leftOut, "small piece")} of all times left out of this page.`].filter(Boolean).join(" ");
	}

	/** Light stripes: free. */
	hatching(c) {
		const tile = document.createElement("canvas");
		tile.width = tile.height = 6;
		const t = tile.getContext("2d");
		t.strokeStyle = style("--line");
		t.lineWidth = 1.5;
		t.beginPath();
		t.moveTo(-1, 7);
		t.lineTo(7, -1);
		t.stroke();
		return c.createPattern(tile, "repeat");
	}

	at(e) {
		return this.places.findLast((p) => e.offsetY >= p.y && e.offsetY < p.y + this.pitch && e.offsetX >= p.x && e.offsetX < p.x + Math.max(2, p.width));
	}

	hover(e) {
		const place = this.at(e), tip = $("map-tip"), d = this.device;
		tip.hidden = !place;
		if (!place)
			return;
		const { segment, row } = place, kind = d.rows.kind[row];
		tip.replaceChildren(row < 0 ? `piece at 0x${segment.address.toString(16)}, ${bytesText(segment.bytes)}, taken by ${segment.owner ?? "unknown"}${segment.small ? `; ${countText(segment.smallBlocks, "small block")} of ${bytesText(segment.small)}` : ""}`
			: `${bytesText(d.rows.bytes[row])} ${d.label(kind, "category")}, ${placeText(d.picture.site(d.kinds.stack[kind]))}`);
		tip.style.left = `${Math.min(e.offsetX + 12, this.canvas.clientWidth - 260)}px`;
		tip.style.top = `${e.offsetY + 14}px`;
	}

	/** Of the fullest moment, or of the failure, from the document of frag. */
	drawBlockers() {
		const frag = this.app.documents.frag, moments = frag?.devices?.[this.device.index]?.moments, message = this.app.messages.frag;
		const name = moments?.failure ? "failure" : "peak", moment = moments?.[name];
		if (!moment?.blockers?.length) {
			$("blockers").replaceChildren(...(!frag && message ? [element("p", { class: "hint" }, `Fragmentation: ${message}.`)] : []));
			return;
		}
		$("blockers").replaceChildren(table(`What keeps free memory from being used, ${name === "failure" ? "when memory ran out" : "at the peak"}: ${bytesText(moment.stuck_bytes)} of ${bytesText(moment.cached_bytes)} cached was stuck`,
			[{ title: "Kept free", number: true }, { title: "Pieces", number: true }, { title: "Blocks", number: true }, { title: "Their bytes", number: true }, { title: "Allocated at" }],
			moment.blockers.slice(0, 10).map((b) => [bytesText(b.kept_bytes), String(b.segments), String(b.count), bytesText(b.bytes), element("span", { class: "mono" }, placeText(b.site))])));
	}
}
