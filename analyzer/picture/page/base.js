/* SPDX-License-Identifier: MIT */
/* Elements, numbers as people read them, and colours. */

const $ = (id) => document.getElementById(id);

/** An element with attributes (on…: listeners; text) and children, which are elements, strings, or nothing. */
function element(tag, attributes = {}, ...children) {
	const made = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on"))
			made.addEventListener(name.slice(2), value);
		else if (value !== false && value != null)
			made.setAttribute(name, value === true ? "" : value);
	}
	made.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
	return made;
}

/** Three significant digits in the largest unit that fits, as the commands print. */
function bytesText(bytes) {
	const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
	let value = Math.abs(bytes), unit = -1;
	if (value < 1024)
		return `${bytes} B`;
	while (value >= 1023.5 && unit < units.length - 1) {
		value /= 1024;
		unit++;
	}
	return `${bytes < 0 ? "-" : ""}${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${units[unit]}`;
}

const deltaText = (bytes) => (bytes > 0 ? "+" : "") + bytesText(bytes);
const percentText = (part, whole) => whole ? `${(100 * part / whole).toFixed(100 * part / whole < 9.95 ? 1 : 0)}%` : "";
const countText = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function timeText(ns) {
	if (ns < 0.9995e6)
		return `${(ns / 1e3).toFixed(ns < 9995 ? 2 : 0)} µs`;
	if (ns < 0.9995e9)
		return `${(ns / 1e6).toFixed(ns < 9.995e6 ? 2 : 1)} ms`;
	if (ns < 99.95e9)
		return `${(ns / 1e9).toFixed(2)} s`;
	const s = Math.floor(ns / 1e9);
	return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

/** "…/models/gpt.py:36": the last two components, as the commands print. */
const shortPath = (path) => path ? path.split("/").slice(-2).join("/") : "";
const placeText = (frame) => frame && frame.file
	? `${shortPath(frame.file)}${frame.line ? ":" + frame.line : ""}${frame.function ? " in " + frame.function : ""}`
	: frame && frame.function ? frame.function : "a line that is not known";

/* Colours that the colour-blind tell apart, on white and on black. */
const palette = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#86bcb6",
	"#d4a6c8", "#8cd17d"];
const categoryColours = { parameter: "#4e79a7", gradient: "#59a14f", optimizer_state: "#b07aa1", activation: "#f28e2b",
	input: "#edc948", workspace: "#76b7b2", communication: "#ff9da7", temporary: "#9c755f", unknown: "#9aa0a6", buffer: "#86bcb6" };
const OTHER_COLOUR = "#9aa0a6";
const wordsOf = (name) => (name ?? "not known").replaceAll("_", " ");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A canvas as sharp as the screen, and its context in CSS pixels. */
function prepare(canvas) {
	const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
	const width = Math.max(1, Math.round(box.width)), height = Math.max(1, Math.round(box.height));
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
	}
	const context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, width, height);
	context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
	return { context, width, height };
}

/** Draw at most once a frame. */
function whenIdle(draw) {
	let wanted = false;
	return () => {
		if (wanted)
			return;
		wanted = true;
		requestAnimationFrame(() => {
			wanted = false;
			draw();
		});
	};
}

function table(caption, columns, rows) {
	return element("table", {}, element("caption", {}, caption),
		element("thead", {}, element("tr", {}, columns.map((c) => element("th", { scope: "col", class: c.number && "number" }, c.title)))),
		element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, i) =>
			element("td", { class: columns[i].number && "number" }, cell))))));
}
