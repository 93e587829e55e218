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

	/** Pieces that lived then, neighbouring pages as one, with the blocks in them. */
	segments() {
		const d = this.device, s = d.driver, time = this.app.time, live = [];
		for (let i = 0; i < s.bytes.length; i++)
			if (s.from_ns[i] <= time && (s.until_ns[i] === FOREVER || time < s.until_ns[i]))
				live.push({ address: s.address[i], bytes: s.bytes[i], isPage: !!s.is_page[i], owner: d.picture.text(s.owner[i]), blocks: [], held: 0 });
		live.sort((a, b) => a.address - b.address);
		const joined = [];
		for (const piece of live) {
			const before = joined.at(-1);
			if (before?.isPage && piece.isPage && before.address + before.bytes === piece.address)
				before.bytes += piece.bytes;
			else
				joined.push(piece);
		}
		const starts = Float64Array.from(joined, (j) => j.address);
		for (const row of this.app.moment.rows) {
			const segment = row < d.nrLarge ? joined[lastUpTo(starts, d.rows.address[row])] : null;
			if (segment && d.rows.address[row] < segment.address + segment.bytes) {
				segment.blocks.push(row);
				segment.held += d.rows.bytes[row];
			}
		}
		return joined;
	}

	draw() {
		if (!this.device || $("map").hidden || !this.app.moment.rows)
			return;
		const d = this.device, all = this.segments(), bySize = [...all].sort((a, b) => b.bytes - a.bytes).slice(0, ROWS_MAX);
		const shown = all.filter((s) => bySize.includes(s)), most = Math.max(1, ...shown.map((s) => s.bytes));
		const pitch = shown.length > 40 ? 9 : 14, total = all.reduce((sum, s) => sum + s.bytes, 0), held = all.reduce((sum, s) => sum + s.held, 0);
		this.canvas.style.height = `${shown.length * pitch + 8}px`;
		const { context: c, width } = prepare(this.canvas), scale = (width - margin.left - 10) / most;
		const free = this.hatching(c), alarm = style("--alarm");
		this.places = [];
		this.pitch = pitch;
		shown.forEach((segment, i) => {
			const y = 4 + i * pitch, isSparse = segment.blocks.length && segment.held <= segment.bytes / 2;
			c.fillStyle = free;
			c.fillRect(margin.left, y, Math.max(1, segment.bytes * scale), pitch - 2);
			this.places.push({ segment, row: -1, x: margin.left, width: segment.bytes * scale, y });
			for (const row of segment.blocks) {
				const x = margin.left + (d.rows.address[row] - segment.address) * scale, w = Math.max(1, d.rows.bytes[row] * scale);
				c.fillStyle = this.app.lives.colour(row);
				c.fillRect(x, y, w, pitch - 2);
				if (isSparse) {
					c.strokeStyle = alarm;
					c.lineWidth = 2;
					c.strokeRect(x, y, Math.max(2, w), pitch - 2);
				}
				this.places.push({ segment, row, x, width: w, y });
			}
			if (pitch > 10 || i % 2 === 0) {
				c.fillStyle = style("--soft");
				c.textAlign = "right";
				c.textBaseline = "middle";
				c.fillText(bytesText(segment.bytes), margin.left - 8, y + pitch / 2 - 1);
			}
		});
		const left = d.driver_left_out + all.length - shown.length;
		$("map-line").textContent = `${countText(all.length, "piece")} of ${bytesText(total)} taken from the driver after ${timeText(this.app.time)}; blocks that are listed fill ${bytesText(held)} of it.`
			+ (left ? ` ${countText(left, "smaller piece")} left out.` : "");
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
		tip.replaceChildren(row < 0 ? `piece at 0x${segment.address.toString(16)}, ${bytesText(segment.bytes)}, taken by ${segment.owner ?? "unknown"}`
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
