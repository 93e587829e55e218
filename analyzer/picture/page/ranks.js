/* SPDX-License-Identifier: MIT */
/* Several GPUs or processes: one small plot for each, on one scale, to choose from. */

function drawSmall(canvas, device, top, end) {
	const { context: c, width, height } = prepare(canvas), from = device.points.from_ns, total = device.total;
	const x = d3.scaleLinear([0, end], [0, width]), y = d3.scaleLinear([0, top], [height, 2]);
	c.fillStyle = categoryColours.activation;
	c.beginPath();
	c.moveTo(0, height);
	for (let i = 0; i < from.length; i++) {
		c.lineTo(x(from[i]), y(total[i]));
		c.lineTo(x(from[i + 1] ?? end), y(total[i]));
	}
	c.lineTo(width, height);
	c.fill();
	if (device.capacity && device.capacity <= top) {
		c.fillStyle = style("--alarm");
		c.fillRect(0, y(device.capacity), width, 1);
	}
}

function drawRanks(app) {
	const devices = app.picture.devices, section = $("ranks");
	section.hidden = devices.length < 2;
	if (section.hidden)
		return;
	const peaks = devices.map((d) => d.total[d.peakPoint()] ?? 0), most = Math.max(1, ...peaks), end = Math.max(1, app.picture.duration);
	const median = [...peaks].sort((a, b) => a - b)[peaks.length >> 1];
	const plots = devices.map((d, i) => ({ device: d, canvas: element("canvas", { "aria-hidden": "true" }), peak: peaks[i] }));
	section.replaceChildren(element("h2", { id: "ranks-title" }, "All GPUs"),
		element("p", { class: "hint" }, `All on one scale, up to ${bytesText(most)}. Choose one to see it below.`),
		element("div", { class: "small" }, plots.map(({ device, canvas, peak }) => element("button", { type: "button", "aria-pressed": String(device === app.device), onclick: () => app.choose(device) },
			element("div", {}, device.name), element("div", { class: "hint" }, `${device.facts.host}, pid ${device.facts.pid}: peak ${bytesText(peak)}${peak !== median ? `, ${deltaText(peak - median)}` : ""}`), canvas))));
	for (const { device, canvas } of plots)
		drawSmall(canvas, device, most, end);
}
