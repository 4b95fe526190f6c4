// The page: takes an event each second, and shows it.

import { curves, histogram, plan, short } from "./draw.js";
import { condition, duration, micro, number, sentence, speak, t } from "./words.js";

const SPAN = 300;
const PATIENCE = 5000;
const at = (id) => document.getElementById(id);

let status = null;
let heard = 0;
let chosen = "";
let lasting = new Map();
let before = null;
const history = [];

// ---- language and theme ----

const kept = (key) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
};
const keep = (key, value) => {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
};

function useLanguage(tag) {
  document.documentElement.lang = speak(tag);
  for (const element of document.querySelectorAll("[data-word]")) {
    element.textContent = t(element.dataset.word);
  }
  const language = at("language");
  language.textContent = t("other");
  language.lang = document.documentElement.lang === "de" ? "en" : "de";
  useTheme(document.documentElement.dataset.theme ?? "auto");
  show();
}

function useTheme(theme) {
  if (theme === "auto") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  at("theme").textContent = t("theme", t(theme));
}

at("language").addEventListener("click", () => {
  const tag = document.documentElement.lang === "de" ? "en" : "de";
  keep("language", tag);
  useLanguage(tag);
});
at("theme").addEventListener("click", () => {
  const all = ["auto", "light", "dark"];
  const next = all[(all.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % all.length];
  keep("theme", next);
  useTheme(next);
});

// The form of dates: the browser's, if it is of the chosen language.
function locale() {
  const { lang } = document.documentElement;
  return navigator.language.startsWith(lang) ? navigator.language : lang;
}

// ---- tables, which keep their elements: focus and reading position stay ----

// Cells are texts, or objects with text, kind (class) and press (a button).
function fill(cell, value) {
  const { text, kind = "", press, pressed } = typeof value === "object" ? value : { text: value };
  if (cell.className !== kind) {
    cell.className = kind;
  }
  let place = cell;
  if (press) {
    place = cell.firstElementChild ?? cell.appendChild(document.createElement("button"));
    place.type = "button";
    place.onclick = press;
    place.setAttribute("aria-pressed", String(Boolean(pressed)));
  }
  if (place.textContent !== String(text)) {
    place.textContent = text;
  }
}

// Columns: [word, class]. Rows: [key, cells]; the first cell heads its row.
function table(id, columns, rows) {
  const element = at(id);
  const head = element.tHead ?? element.createTHead();
  const body = element.tBodies[0] ?? element.createTBody();
  const names = head.rows[0] ?? head.insertRow();
  columns.forEach(([word, kind = ""], index) => {
    const cell = names.cells[index] ?? names.appendChild(document.createElement("th"));
    cell.scope = "col";
    cell.className = kind;
    cell.textContent = t(word);
  });
  const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach(([key, cells], index) => {
    const row = known.get(key) ?? document.createElement("tr");
    known.delete(key);
    row.dataset.key = key;
    cells.forEach((value, column) => {
      fill(row.cells[column] ?? row.appendChild(document.createElement("td")), value);
    });
    if (body.rows[index] !== row) {
      body.insertBefore(row, body.rows[index] ?? null);
    }
  });
  known.forEach((row) => row.remove());
  element.hidden = rows.length === 0;
}

// ---- alarms ----

const keyOf = ({ name, about }) => `${name} ${about}`;

function announce(element, text) {
  // A text that repeats is announced again.
  element.textContent = "";
  setTimeout(() => {
    element.textContent = text;
  }, 50);
}

function warnings() {
  const all = status?.warnings ?? [];
  const silent = { name: "no-answer", about: "", what: t("silent"), remedy: "journalctl -u antedate-gateway", seconds: (Date.now() - heard) / 1000 };
  return heard > 0 && status === null ? [silent] : all;
}

function alarms() {
  const all = warnings();
  const now = new Map(all.map((warning) => [keyOf(warning), warning]));
  const begun = all.filter((warning) => !lasting.has(keyOf(warning)));
  const over = status === null ? [] : [...lasting.values()].filter((warning) => !now.has(keyOf(warning)));
  if (begun.length > 0) {
    announce(at("shout"), begun.map((warning) => t("begins", condition(warning).what)).join(" "));
  }
  if (over.length > 0) {
    const words = ({ name, ...rest }) => (name === "no-answer" ? t("answers") : t("ends", condition({ name, ...rest }).what));
    announce(at("say"), over.map(words).join(" "));
  }
  lasting = now;
  const list = at("alarm-list");
  const items = new Map([...list.children].map((item) => [item.dataset.key, item]));
  for (const warning of all) {
    const key = keyOf(warning);
    const { what, remedy } = condition(warning);
    let item = items.get(key);
    items.delete(key);
    if (!item) {
      item = document.createElement("li");
      item.dataset.key = key;
      item.append(document.createElement("p"), document.createElement("p"));
      item.firstChild.append(document.createElement("strong"), document.createElement("span"));
      item.lastChild.className = "remedy";
      list.append(item);
    }
    item.className = warning.notice ? "notice" : "";
    const [strong, rest] = item.firstChild.children;
    strong.textContent = `▲ ${what}`;
    rest.textContent = ` ${warning.notice ? `(${t("notice")}) ` : ""}${t("since", duration(warning.seconds))}`;
    item.lastChild.textContent = `${t("remedy")}: ${remedy}`;
  }
  items.forEach((item) => item.remove());
  at("calm").hidden = all.length > 0 || status === null;
  const alarming = all.filter((warning) => !warning.notice).length;
  document.title = `${alarming > 0 ? `(${alarming}) ` : ""}Antedate ${status ? ports() : ""}`;
}

const ports = () => `${status.field.interface} ⇄ ${status.uplink.interface}`;

// ---- the plan ----

const sum = (counts) => Object.values(counts).reduce((all, count) => all + count, 0);

function machinesOf(way, more) {
  const flows = (status.flows?.flows ?? []).filter(({ direction }) => direction === way);
  const stopped = flows.filter((flow) => flow.stopped).length;
  const lines = more ? [[t("machinesOf", number(more))]] : [];
  lines.push([flows.length === 1 ? t("flowOf") : t("flowsOf", flows.length)]);
  if (stopped > 0) {
    lines.push([t("stoppedOf", stopped), "bad"]);
  }
  const sources = [...new Set(flows.map(({ source }) => source))];
  lines.push(...sources.slice(0, 4).map((source) => [source]));
  return { lines: flows.length === 0 && !more ? [[t("noMachines")]] : lines, bad: stopped > 0 };
}

function peersOf() {
  const { macsec, overlay } = status;
  if (overlay) {
    return overlay.peers.map((peer) => ({
      head: peer.name,
      good: overlay.protection !== "wireguard" || peer.session,
      lines: [[overlay.protection === "wireguard" ? t(peer.session ? "session" : "noSession") : t("unprotected"), peer.session ? "good" : "bad"], [peer.endpoint || peer.address]],
    }));
  }
  if (macsec?.agreement) {
    return macsec.agreement.members.map((member) => ({
      head: member.address,
      good: member.live,
      lines: [[t(member.live ? "member" : "notLive"), member.live ? "good" : "bad"], [member.sci]],
    }));
  }
  const members = new Map((macsec?.receive ?? []).map((sa) => [sa.sci, sa.member]));
  return [...members].map(([sci, name]) => ({ head: name || sci, good: true, lines: [[sci]] }));
}

function protection() {
  if (status.macsec) {
    return status.macsec.encoding_sa === null ? [t("noKey"), "bad"] : [t("protectedBy", "MACsec"), "good"];
  }
  return status.protection === "wireguard" ? [t("protectedBy", "WireGuard"), "good"] : [t("unprotected"), "bad"];
}

function drawPlan() {
  const near = machinesOf("out", status.overlay?.field_macs);
  const far = machinesOf("in");
  const peers = peersOf();
  peers.none = t("noPeers");
  if (peers.length > 0 && far.lines.length > 0) {
    peers[0].lines.push(far.lines[0]);
    peers[0].lines.push(...far.lines.slice(1, 2).filter(([, kind]) => kind === "bad"));
  }
  const [words, kind] = protection();
  const link = ({ link: up }) => ({ good: up, label: t(up ? "up" : "down") });
  const lines = [
    [`${t("field")}: ${status.field.interface}`],
    [`${t("uplink")}: ${status.uplink.interface}`],
    [words, kind],
    ...(status.macsec ? [[status.macsec.suite]] : []),
    [t("framesOf", t("out"), number(status.out.forwarded_frames))],
    [t("framesOf", t("in"), number(status.in.forwarded_frames))],
  ];
  const links = { field: link(status.field), uplink: link(status.uplink) };
  const said = [
    `${t("machines")}: ${near.lines.map(([text]) => text).join(", ")}`,
    `${t("field")} ${status.field.interface} ${links.field.label}`,
    `${t("gateway")}: ${words}`,
    `${t("uplink")} ${status.uplink.interface} ${links.uplink.label}`,
    `${t("peers")}: ${peers.map(({ head, lines: [[first]] }) => `${head} ${first}`).join(", ") || peers.none}`,
  ];
  plan(at("plan"), {
    machines: { head: t("machines"), ...near },
    gateway: { head: t("gateway"), lines, bad: kind === "bad" },
    network: t("network"),
    peers,
    links,
    text: `${said.join(". ")}.`,
  });
}

// ---- curves ----

function remember() {
  const now = performance.now() / 1000;
  const totals = {
    out: status.out.forwarded_frames,
    in: status.in.forwarded_frames,
    refused: sum(status.out.refused) + sum(status.in.refused) + Object.entries(status.macsec?.counters ?? {}).filter(([name]) => /^InPkts(NotValid|BadTag|Late|NoTag|NoSCI|NotUsingSA)$/.test(name)).reduce((all, [, count]) => all + count, 0),
  };
  if (before && before.pid === status.pid && now > before.now) {
    const rate = (name) => Math.max(0, (totals[name] - before.totals[name]) / (now - before.now));
    const margins = (status.flows?.flows ?? []).map((flow) => flow.margin_percent);
    history.push({
      now,
      out: rate("out"),
      in: rate("in"),
      refused: rate("refused"),
      margin: margins.length > 0 ? Math.min(...margins) : null,
      cpu: status.threads.reduce((all, thread) => all + thread.cpu_percent, 0),
    });
  }
  before = { now, pid: status.pid, totals };
  while (history.length > 0 && history[0].now < now - SPAN) {
    history.shift();
  }
}

function drawCurves() {
  const now = performance.now() / 1000;
  const points = (name) => history.filter((one) => one[name] !== null).map((one) => [now - one.now, one[name]]);
  const draw = (id, series, most) => {
    const told = series.filter((one) => one.points.length > 0).map(({ name, points: all }) => {
      const values = all.map(([, value]) => value);
      return `${name ? `${name}: ` : ""}${t("nowOf", short(values.at(-1)), short(Math.max(...values)), short(Math.min(...values)))}`;
    });
    const text = told.join("; ") || t("noData");
    const svg = at(id);
    curves(svg, series, { span: SPAN, most, ago: t("ago"), now: t("now"), text: `${svg.previousElementSibling.textContent}. ${text}` });
    svg.nextElementSibling.textContent = text;
  };
  draw("frames", [{ name: t("out"), kind: "one", points: points("out") }, { name: t("in"), kind: "two", points: points("in") }]);
  draw("refused", [{ name: "", kind: "one", points: points("refused") }]);
  draw("margin", [{ name: "", kind: "one", points: points("margin") }], 100);
  draw("cpu", [{ name: "", kind: "one", points: points("cpu") }], 100 * Math.max(1, status?.threads.length ?? 1));
}

// ---- flows ----

const flowKey = (flow) => [flow.direction, flow.protocol, flow.id, flow.source, flow.destination].join(" ");
const flowName = (flow) => `${flow.protocol} ${flow.id} ${flow.source}`.replace("  ", " ");

function flowState(flow) {
  if (flow.stopped) {
    return { text: `${t("stopped")} ${duration(flow.silent_seconds)}`, kind: "bad" };
  }
  const data = flow.data_status;
  if (!data) {
    return "";
  }
  const words = [t(data.run ? "run" : "stop")];
  words.push(...[[!data.valid, "invalid"], [data.problem, "problem"], [!data.primary, "backup"]].filter(([holds]) => holds).map(([, word]) => t(word)));
  return { text: words.join(", "), kind: data.run && data.valid && !data.problem ? "" : "bad" };
}

function showFlows() {
  const flows = [...(status.flows?.flows ?? [])].sort((a, b) => (flowKey(a) < flowKey(b) ? -1 : 1));
  at("flows-hint").textContent = t(status.flows ? (flows.length > 0 ? "flowsHint" : "noFlows") : "notWatched");
  const selected = flows.find((flow) => flowKey(flow) === chosen) ?? flows[0];
  const columns = [["flow"], ["direction"], ["cycle", "number"], ["jitter", "number"], ["longest", "number"], ["margin", "number"], ["missed", "number"], ["expired", "number"], ["state"]];
  const rows = flows.map((flow) => {
    const press = () => {
      chosen = flowKey(flow);
      show();
    };
    const kind = flow.margin_percent < 20 ? "number bad" : "number";
    return [flowKey(flow), [
      { text: flowName(flow), press, pressed: flow === selected },
      t(flow.direction),
      { text: micro(flow.cycle_us), kind: "number" },
      { text: micro(flow.jitter_us), kind: "number" },
      { text: micro(flow.longest_us), kind: "number" },
      { text: `${number(flow.margin_percent)} %`, kind },
      { text: number(flow.missed_cycles), kind: "number" },
      { text: number(flow.watchdog_expired), kind: "number" },
      flowState(flow),
    ]];
  });
  table("flows", columns, rows);
  const figure = at("intervals-figure");
  figure.hidden = !selected || selected.intervals.length === 0;
  if (!figure.hidden) {
    const { intervals, cycle_us: cycle } = selected;
    const limit = cycle * status.flows.watchdog_cycles;
    const total = intervals.reduce((all, { count }) => all + count, 0);
    const text = t("histogramOf", number(total), micro(intervals[0].below_us), micro(intervals.at(-1).below_us), micro(cycle), micro(limit));
    at("intervals-title").textContent = t("histogram", `${flowName(selected)} (${t(selected.direction)})`);
    histogram(at("intervals"), { intervals, cycle, limit, micro, cycleName: t("cycle"), limitName: t("watchdog"), text });
    figure.lastElementChild.textContent = text;
  }
}

// ---- keys, policy, counters, events ----

function keyRows() {
  const { macsec, overlay, uplink } = status;
  const rows = [[t("mtu"), number(uplink.mtu)]];
  if (macsec) {
    rows.unshift([t("suite"), macsec.suite], [t("sci"), macsec.sci], [t("association"), macsec.encoding_sa ?? { text: t("noKey"), kind: "bad" }]);
    const agreement = macsec.agreement;
    if (agreement) {
      const used = agreement.keys.find((key) => key.transmits);
      rows.push([t("keyAge"), used ? duration(used.age_seconds) : { text: t("noKey"), kind: "bad" }]);
      rows.push([t("rekeys"), number(agreement.fresh_keys)]);
      rows.push([t("keyServer"), agreement.is_key_server ? t("thisOne") : agreement.key_server]);
      for (const cak of agreement.caks) {
        const words = [cak.carries && t("carries"), cak.rests && t("rests"), cak.removed && t("removed"), t("heardBy", cak.members.length), cak.fault];
        rows.push([t("cak", cak.ckn), words.filter(Boolean).join("; ")]);
      }
    }
    for (const sa of macsec.transmit) {
      rows.push([t("nextNumber", sa.an), number(sa.next_pn)]);
      if (!agreement) {
        rows.push([t("reserved", sa.an), number(sa.reserved_until)]);
      }
    }
    rows.push([t("prepared"), t("ofTarget", macsec.sealing.prepared, macsec.sealing.target)]);
    if (macsec.path) {
      rows.push([t("pathMtu"), `${number(macsec.path.mtu)} (${macsec.path.source}, ${t("since", duration(macsec.path.seconds))})`]);
    }
    rows.push([t("fragmentsSent"), number(macsec.counters.OutFragments ?? 0)], [t("fragmentsReceived"), number(macsec.counters.InFramesReassembled ?? 0)]);
  }
  if (overlay) {
    rows.push([t("publicKey"), overlay.public_key], [t("listen"), overlay.listen]);
    for (const peer of overlay.peers) {
      rows.push([t("handshakes", peer.name), number(peer.handshakes)]);
      rows.push([t("sessionAge", peer.name), peer.handshake_age_seconds === null || !peer.session ? { text: t("noSession"), kind: "bad" } : duration(peer.handshake_age_seconds)]);
      rows.push([t("pieces", peer.name), number(peer.frames_in_pieces + peer.frames_in_fragments)]);
      rows.push([t("reassembled", peer.name), number(peer.frames_reassembled)]);
      if (peer.path_mtu > 0) {
        rows.push([t("pathMtuTo", peer.name), `${number(peer.path_mtu)} (${peer.path_mtu_source})`]);
      }
    }
  }
  return rows.map(([name, value], index) => [`${index} ${name}`, [name, value]]);
}

function showPolicy() {
  const { allow, rules } = status.policy;
  at("allowed").textContent = `${t("allowed", allow.join(", ") || t("nothing"))}${rules.length === 0 ? `. ${t("noRules")}` : ""}`;
  const row = (text, index) => [String(index), [
    String(index + 1),
    { text, kind: "text" },
    { text: number(status.out.rules[index] ?? 0), kind: "number" },
    { text: number(status.in.rules[index] ?? 0), kind: "number" },
  ]];
  table("policy", [["rule"], ["what"], ["rulesOut", "number"], ["rulesIn", "number"]], rules.map(row));
}

function showCounters() {
  const rows = [];
  const add = (way, name, count) => {
    if (count > 0) {
      rows.push([`${way} ${name}`, [name, way, { text: number(count), kind: "number" }]]);
    }
  };
  for (const port of ["field", "uplink"]) {
    const { received_frames, sent_frames, ring_drops, send_errors, link_downs } = status[port];
    [["received", received_frames], ["sent", sent_frames], ["ringDrops", ring_drops], ["sendErrors", send_errors], ["linkDowns", link_downs]].forEach(([word, count]) => add(t(port), t(word), count));
  }
  for (const way of ["out", "in"]) {
    add(t(way), t("passed"), status[way].forwarded_frames);
    Object.entries(status[way].refused).forEach(([reason, count]) => add(t(way), t("refused", reason), count));
  }
  Object.entries(status.macsec?.counters ?? {}).forEach(([name, count]) => add("MACsec", name, count));
  Object.entries(status.overlay?.refused ?? {}).forEach(([name, count]) => add("overlay", t("refused", name), count));
  table("counters", [["counter"], ["direction"], ["value", "number"]], rows);
}

function showEvents() {
  const events = [...(status.events ?? [])].reverse();
  at("events-hint").textContent = events.length > 0 ? "" : t("noEvents");
  const rows = events.map((event) => {
    const time = new Date(Date.now() - event.age_seconds * 1000);
    // The same event has the same key, though its age is rounded.
    const key = `${Math.round(time.getTime() / 3000)} ${event.event} ${keyOf(event)}`;
    return [key, [time.toLocaleString(locale()), t(event.event), { text: sentence(event), kind: "text" }]];
  });
  table("events", [["time"], ["event"], ["what"]], rows);
}

// ---- all ----

function show() {
  const live = at("live");
  live.dataset.state = status ? "live" : "waits";
  live.textContent = t(status ? "live" : heard > 0 ? "silent" : "waits");
  alarms();
  drawCurves();
  if (!status) {
    return;
  }
  at("ports").textContent = ports();
  at("about").title = `${t("config")}: ${status.config}`;
  at("about").textContent = `${status.config.split("/").pop()}, ${status.antedate}, ${t("uptime", duration(status.uptime_seconds))}${status.forwarding ? "" : `. ${t("forwardingFault")}`}`;
  drawPlan();
  showFlows();
  table("keys", [["item"], ["value"]], keyRows());
  showPolicy();
  showCounters();
  showEvents();
}

function follow() {
  const events = new EventSource("/events");
  events.onmessage = ({ data }) => {
    status = JSON.parse(data).status;
    if (status) {
      heard = Date.now();
      remember();
    }
    show();
  };
  events.onerror = () => {
    // A refused stream is closed for good; an interrupted one comes back by itself.
    if (events.readyState === EventSource.CLOSED) {
      announce(at("say"), t("crowded"));
      setTimeout(follow, 10000);
    }
  };
}

setInterval(() => {
  if (status && Date.now() - heard > PATIENCE) {
    status = null;
    show();
  } else if (!status && heard > 0) {
    show();
  }
}, 1000);

useTheme(kept("theme") ?? "auto");
useLanguage(kept("language") ?? navigator.language ?? "en");
follow();
