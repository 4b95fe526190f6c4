// Drawings in SVG. Each has a text of the same content, for those who do not see it.

const SVG = "http://www.w3.org/2000/svg";

// A new element with attributes, and text if it has some.
function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  if (text !== undefined) {
    element.textContent = text;
  }
  return element;
}

// A number of at most four places: 950, 9.5 k, 1.2 M.
export function short(value) {
  const units = ["", " k", " M", " G"];
  let at = 0;
  while (Math.abs(value) >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  const digits = { maximumFractionDigits: value >= 100 ? 0 : 1 };
  return `${value.toLocaleString(document.documentElement.lang, digits)}${units[at]}`;
}

// The smallest of 1, 2, 5, 10, 20, ... that is not below the value.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

// Curves over the last `span` seconds. `series`: each a name, a class and points [age, value].
export function curves(svg, series, { span, most, ago, now, text }) {
  const [left, right, top, bottom] = [56, 338, 10, 108];
  const all = series.flatMap(({ points }) => points.map(([, value]) => value));
  const high = most ?? round(Math.max(1, ...all));
  const x = (age) => right - (Math.min(age, span) / span) * (right - left);
  const y = (value) => bottom - (Math.min(value, high) / high) * (bottom - top);
  const parts = [
    make("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }),
    make("text", { x: left - 5, y: top + 8, "text-anchor": "end" }, short(high)),
    make("text", { x: left - 5, y: bottom, "text-anchor": "end" }, "0"),
    make("text", { x: left, y: bottom + 16 }, ago),
    make("text", { x: right, y: bottom + 16, "text-anchor": "end" }, now),
  ];
  let last = -100;
  const ends = series.filter(({ points }) => points.length > 0).map((one) => ({ ...one, at: y(one.points.at(-1)[1]) }));
  for (const { name, kind, points, at } of ends.sort((a, b) => a.at - b.at)) {
    const line = points.map(([age, value], index) => `${index === 0 ? "M" : "L"}${x(age).toFixed(1)} ${y(value).toFixed(1)}`);
    parts.push(make("path", { class: `curve ${kind}`, d: line.join("") }));
    last = Math.max(at, last + 14);
    parts.push(make("text", { class: `label-${kind}`, x: right + 5, y: last + 4 }, name));
  }
  svg.setAttribute("aria-label", text);
  svg.replaceChildren(...parts);
}

// A histogram of intervals on a logarithmic axis, with the cycle and the watchdog's time.
export function histogram(svg, { intervals, cycle, limit, micro, cycleName, limitName, text }) {
  const [left, right, top, bottom] = [50, 980, 26, 160];
  const ends = intervals.map(({ below_us }) => below_us);
  const low = Math.min(...ends, cycle) / 1.6;
  const high = Math.max(...ends, limit) * 1.3;
  const x = (value) => left + (Math.log(value / low) / Math.log(high / low)) * (right - left);
  const most = Math.max(...intervals.map(({ count }) => count));
  // Rare intervals are those that count: their bars must be seen.
  const y = (count) => bottom - (Math.log1p(count) / Math.log1p(most)) * (bottom - top);
  const parts = [make("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` })];
  for (const { below_us, count } of intervals) {
    // Four buckets in an octave of nanoseconds.
    const octave = 2 ** Math.floor(Math.log2(below_us * 1000 - 1)) / 1000;
    const from = x(Math.max(below_us - octave / 4, low));
    const bar = make("rect", { class: "bar", x: from, y: y(count), width: Math.max(x(below_us) - from - 1, 1), height: bottom - y(count) });
    bar.append(make("title", {}, `< ${micro(below_us)}: ${count}`));
    parts.push(bar);
  }
  for (let decade = 10 ** Math.ceil(Math.log10(low)); decade < high; decade *= 10) {
    parts.push(make("text", { x: x(decade), y: bottom + 18, "text-anchor": "middle" }, micro(decade)));
    parts.push(make("path", { class: "axis", d: `M${x(decade)} ${bottom}v5` }));
  }
  parts.push(make("text", { x: left - 6, y: top + 6, "text-anchor": "end" }, short(most)));
  parts.push(make("text", { x: left - 6, y: bottom, "text-anchor": "end" }, "0"));
  for (const [value, name, kind, anchor] of [[cycle, cycleName, "mark", "end"], [limit, limitName, "mark limit", "start"]]) {
    const at = x(value);
    parts.push(make("path", { class: kind, d: `M${at} ${top - 8}V${bottom}` }));
    // A name that would leave the drawing stands before its line.
    const side = at > right - 150 ? "end" : anchor;
    const beside = side === "end" ? at - 5 : at + 5;
    parts.push(make("text", { class: kind === "mark" ? "" : "limit", x: beside, y: top - 10, "text-anchor": side }, `${name} ${micro(value)}`));
  }
  svg.setAttribute("aria-label", text);
  svg.replaceChildren(...parts);
}

// A box with a head and lines; each line has a text and perhaps a class.
function box([x, y, width, height], head, lines, bad) {
  const parts = [make("rect", { class: bad ? "box bad" : "box", x, y, width, height, rx: 6 })];
  parts.push(make("text", { class: "head", x: x + 10, y: y + 22 }, head));
  const room = Math.floor((height - 28) / 17);
  lines.slice(0, room).forEach(([text, kind], at) => {
    const long = Math.floor((width - 16) / 6.4);
    const cut = text.length > long ? `${text.slice(0, long - 1)}…` : text;
    parts.push(make("text", { class: kind ?? "", x: x + 10, y: y + 41 + at * 17 }, cut));
  });
  return parts;
}

// The plan: machines, this gateway, the network, other gateways, and what is behind them.
export function plan(svg, { machines, gateway, network, peers, links, text }) {
  const shown = peers.slice(0, 6);
  const each = 92;
  const height = Math.max(200, shown.length * (each + 10) + 20);
  const middle = height / 2;
  svg.setAttribute("viewBox", `0 0 1000 ${height}`);
  const wire = (from, to, good, label) => [
    make("path", { class: good ? "wire" : "wire bad", d: `M${from[0]} ${from[1]}L${to[0]} ${to[1]}` }),
    make("text", { class: good ? "good" : "bad", x: (from[0] + to[0]) / 2, y: (from[1] + to[1]) / 2 - 8, "text-anchor": "middle" }, label),
  ];
  const parts = [
    ...wire([205, middle], [285, middle], links.field.good, links.field.label),
    ...wire([500, middle], [575, middle], links.uplink.good, links.uplink.label),
    ...box([10, middle - 65, 195, 130], machines.head, machines.lines, machines.bad),
    ...box([285, middle - 75, 215, 150], gateway.head, gateway.lines, gateway.bad),
    make("ellipse", { class: "cloud", cx: 635, cy: middle, rx: 60, ry: 42 }),
    ...network.split(" ").map((word, at, all) => make("text", { x: 635, y: middle + 4 + (at - (all.length - 1) / 2) * 16, "text-anchor": "middle" }, word)),
  ];
  shown.forEach(({ head, lines, good }, at) => {
    const y = middle + (at - (shown.length - 1) / 2) * (each + 10);
    parts.push(make("path", { class: good ? "wire" : "wire bad", d: `M695 ${middle}L755 ${y}` }));
    parts.push(...box([755, y - each / 2, 235, each], head, lines, !good));
  });
  if (shown.length === 0) {
    parts.push(...box([755, middle - each / 2, 235, each], peers.none, [], true));
  }
  svg.setAttribute("aria-label", text);
  svg.replaceChildren(...parts);
}
