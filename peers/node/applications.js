// The Node package in an application with mqtt.js, over 3.1.1 and 5, and its nodes in a Node-RED without an editor.
//
// Arguments: antedate program, the installed package, an empty directory, the book's chapter. The last line of output is the verdict.
"use strict";

const assert = require("node:assert/strict");
const { spawn, execFileSync } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");

const [program, packageFolder, work, chapter] = process.argv.slice(2).map((word) => path.resolve(word));
const mqtt = require("mqtt");
process.chdir(work);
const antedate = require(packageFolder);
const TOPIC = "plant/line4/press7/force";
const children = [];

const run = (...words) => execFileSync(program, words, { timeout: 60000, encoding: "utf8" });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what, text, seconds = 20) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await pause(10)) {
    const found = await what();
    if (found) {
      return found;
    }
  }
  throw new Error(`${text} did not come`);
}

function freePort() {
  return new Promise((done) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

function open(port) {
  return new Promise((done) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.on("connect", () => done(socket.destroy() && true));
    socket.on("error", () => done(false));
  });
}

function start(command, words, name, more = {}) {
  const log = fs.openSync(`${name}.log`, "w");
  const child = spawn(command, words, { stdio: ["ignore", log, log], ...more });
  children.push(child);
  return child;
}

function code(kind, call) {
  assert.throws(call, (error) => error instanceof antedate.AntedateError && error.code === kind && error.remedy.length > 0);
}

/** What the package says of wrong files, states and messages. */
async function rules() {
  antedate.createState("rules");
  code("state", () => antedate.createState("rules"));
  code("configuration", () => new antedate.Guard({ keys: [] }));
  code("configuration", () => new antedate.Guard({ keys: ["missing.toml"] }));
  const guard = new antedate.Guard({ keys: ["line4.toml"], state: "rules", publisher: "rules" });
  code("state", () => new antedate.Guard({ keys: ["line4.toml"], state: "rules", publisher: "rules" }));
  const reader = new antedate.Guard({ keys: ["line4.toml"] });
  code("configuration", () => reader.seal(TOPIC, "x"));
  code("no-group", () => guard.seal("elsewhere", "x"));
  code("payload", () => guard.seal("plant/line4/+", "x"));
  const envelope = guard.seal(TOPIC, "81.5");
  assert.equal(reader.open(TOPIC, envelope).payload.toString(), "81.5");
  code("moved", () => reader.open("plant/line4/x", envelope));
  code("repeated", () => reader.open(TOPIC, envelope));
  code("not-envelope", () => reader.open(TOPIC, Buffer.from("clear")));
  const forged = guard.seal(TOPIC, "82");
  forged[forged.length - 1] ^= 1;
  code("unauthentic", () => reader.open(TOPIC, forged));
  const later = guard.seal(TOPIC, Buffer.from([0, 255]));
  const opened = await reader.openLater(TOPIC, later);
  assert.deepEqual([...opened.payload], [0, 255]);
  assert.equal(opened.publisher, "rules");
  await assert.rejects(reader.openLater(TOPIC, later), { code: "repeated" });
  guard.close();
  code("state", () => guard.seal(TOPIC, "x"));
  // The next number is the exact one after a clean end.
  const again = new antedate.Guard({ keys: ["line4.toml"], state: "rules", publisher: "rules" });
  assert.equal(reader.open(TOPIC, again.seal(TOPIC, "x")).sequence, opened.sequence + 1);
  again.close();
}

/** The blocks of the book's chapter, as programs. */
async function book(port) {
  const blocks = [...fs.readFileSync(chapter, "utf8").matchAll(/^```js\n([^]*?)^```/gm)].map(([, text]) => text.replaceAll("1883", port));
  assert.equal(blocks.length, 2);
  const modules = path.join(work, "node_modules");
  fs.mkdirSync(modules, { recursive: true });
  fs.symlinkSync(packageFolder, path.join(modules, "antedate"));
  fs.symlinkSync(path.join(__dirname, "node_modules/mqtt"), path.join(modules, "mqtt"));
  antedate.createState("press7");
  antedate.createState("scada");
  blocks.forEach((text, at) => fs.writeFileSync(`block${at}.js`, text));
  const subscriber = start("node", ["block1.js"], "subscriber");
  await until(() => fs.readFileSync("subscriber.log", "utf8").includes("subscribed"), "the subscriber");
  execFileSync("node", ["block0.js"], { timeout: 20000 });
  const said = () => fs.readFileSync("subscriber.log", "utf8");
  await until(() => said().includes('{"kN":83.5}'), "the book's payloads");
  for (const force of ["81.5", "82.0", "83.5"]) {
    assert.equal(said().split(`${TOPIC} press7 {"kN":${force}}`).length, 2, said());
  }
  subscriber.kill();
}

/** mqtt.js to our client and back, over a version of MQTT, at each QoS. */
async function client(port, version) {
  const name = `node${version}`;
  antedate.createState(name);
  const guard = new antedate.Guard({ keys: ["line4.toml"], state: name, publisher: name });
  run("mqtt", "init", `ours${version}`);
  const connection = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`, { protocolVersion: version === "5" ? 5 : 4 });
  const got = [];
  connection.on("message", (topic, message) => got.push(guard.open(topic, message).payload.toString()));
  for (const qos of [0, 1, 2]) {
    const [to, from] = [`plant/line4/${name}/${qos}`, `plant/line4/ours/${name}/${qos}`];
    await connection.subscribeAsync(from, { qos });
    const common = ["-p", `${port}`, "-V", version === "5" ? "5" : "311", "--keys", "line4.toml", "-q", `${qos}`];
    const sub = start(program, ["mqtt", "sub", ...common, "-t", to, "-C", "20", "-W", "20"], `sub-${name}-${qos}`);
    const ended = new Promise((done) => sub.on("exit", done));
    await pause(300);
    for (let number = 0; number < 20; number++) {
      await connection.publishAsync(to, guard.seal(to, `${number}`), { qos });
    }
    assert.equal(await ended, 0, fs.readFileSync(`sub-${name}-${qos}.log`, "utf8"));
    assert.equal(fs.readFileSync(`sub-${name}-${qos}.log`, "utf8"), [...Array(20).keys()].join("\n") + "\n");
    run("mqtt", "pub", ...common, "--state", `ours${version}`, "--publisher", `ours${version}`, "-t", from, "-m", `ours ${qos}`);
    await until(() => got.includes(`ours ${qos}`), "our payload");
  }
  await services(port, version, connection, guard);
  await connection.endAsync();
  guard.close();
}

/** Shared subscriptions, wildcards, retained messages and wills; aliases and expiry of version 5. */
async function services(port, version, connection, guard) {
  const place = `plant/line4/services${version}`;
  const common = ["-p", `${port}`, "-V", version === "5" ? "5" : "311", "--keys", "line4.toml"];
  const listen = (name, topic, ...words) => {
    const sub = start(program, ["mqtt", "sub", ...common, "-q", "2", "-t", topic, ...words], name);
    return new Promise((done) => sub.on("exit", () => done(fs.readFileSync(`${name}.log`, "utf8"))));
  };
  const send = (topic, text, more) => connection.publishAsync(topic, guard.seal(topic, text), { qos: 1, ...more });
  const pair = [0, 1].map((number) => listen(`shared${version}-${number}`, `$share/pair/${place}/+/in`, "-W", "3"));
  await pause(1000);
  for (let number = 0; number < 30; number++) {
    await send(`${place}/${number % 3}/in`, `${number}`, { qos: number % 3 });
  }
  const got = (await Promise.all(pair)).map((text) => text.split("\n").filter((line) => line));
  assert.ok(got.every((lines) => lines.length > 0), "both of a shared subscription");
  assert.deepEqual(got.flat().map(Number).sort((one, other) => one - other), [...Array(30).keys()]);
  await send(`${place}/kept`, "kept", { retain: true });
  assert.equal(run("mqtt", "sub", ...common, "-t", `${place}/kept`, "-C", "1", "-W", "10"), "kept\n");
  // Node-RED's flow reads all topics.
  await connection.publishAsync(`${place}/kept`, "", { qos: 1, retain: true });
  if (version === "5") {
    await send(`${place}/short`, "short", { retain: true, properties: { messageExpiryInterval: 1 } });
    const aliased = listen("alias", `${place}/alias`, "-C", "2", "-W", "20");
    await pause(500);
    await send(`${place}/alias`, "first", { properties: { topicAlias: 1 } });
    await connection.publishAsync("", guard.seal(`${place}/alias`, "second"), { qos: 1, properties: { topicAlias: 1 } });
    assert.equal(await aliased, "first\nsecond\n");
    await pause(1200);
    assert.equal(await listen("short", `${place}/short`, "-W", "1"), "");
  }
  // The broker publishes a sealed will when the connection is lost.
  const will = { topic: `${place}/gone`, payload: guard.seal(`${place}/gone`, "gone"), qos: 1 };
  const mortal = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`, { protocolVersion: version === "5" ? 5 : 4, will, reconnectPeriod: 0 });
  const heir = listen(`gone${version}`, `${place}/gone`, "-C", "1", "-W", "20");
  await pause(500);
  mortal.stream.destroy();
  assert.equal(await heir, "gone\n");
}

/** Node-RED without an editor: payloads of a machine are sealed by one flow and opened by the other. */
async function nodeRed(port) {
  const home = path.join(work, "node-red");
  fs.mkdirSync(path.join(home, "node_modules"), { recursive: true });
  fs.cpSync(packageFolder, path.join(home, "node_modules/antedate"), { recursive: true });
  fs.writeFileSync(path.join(home, "package.json"), JSON.stringify({ name: "flows", version: "0.0.1", dependencies: { antedate: "*" } }));
  fs.writeFileSync(
    path.join(home, "settings.js"),
    "module.exports = { httpAdminRoot: false, httpNodeRoot: false, uiHost: '127.0.0.1', uiPort: " + (await freePort()) + ", logging: { console: { level: 'info' } } };",
  );
  antedate.createState("red");
  const flows = [
    { id: "tab", type: "tab", label: "press" },
    { id: "broker", type: "mqtt-broker", broker: "127.0.0.1", port: `${port}`, clientid: "", autoConnect: true, keepalive: "60", cleansession: true, protocolVersion: "4" },
    { id: "guard", type: "antedate-guard", keys: path.join(work, "line4.toml"), state: path.join(work, "red"), publisher: "red" },
    { id: "reader", type: "antedate-guard", keys: path.join(work, "line4.toml") },
    // From the machine to the plant, sealed.
    { id: "a1", z: "tab", type: "mqtt in", topic: "machine/force", qos: "1", datatype: "auto-detect", broker: "broker", wires: [["a2"]] },
    { id: "a2", z: "tab", type: "change", rules: [{ t: "set", p: "topic", pt: "msg", to: TOPIC, tot: "str" }], wires: [["a3"]] },
    { id: "a3", z: "tab", type: "antedate-seal", guard: "guard", wires: [["a4"]] },
    { id: "a4", z: "tab", type: "mqtt out", topic: "", qos: "1", retain: "", broker: "broker", wires: [] },
    // From the plant to a display, opened; what is refused goes to another topic.
    { id: "b1", z: "tab", type: "mqtt in", topic: "plant/line4/#", qos: "1", datatype: "buffer", broker: "broker", wires: [["b2"]] },
    { id: "b2", z: "tab", type: "antedate-open", guard: "reader", wires: [["b3"]] },
    { id: "b3", z: "tab", type: "change", rules: [{ t: "set", p: "topic", pt: "msg", to: "display", tot: "str" }], wires: [["b4"]] },
    { id: "b4", z: "tab", type: "mqtt out", topic: "", qos: "1", retain: "", broker: "broker", wires: [] },
    { id: "c1", z: "tab", type: "catch", scope: ["b2"], wires: [["c2"]] },
    { id: "c2", z: "tab", type: "change", rules: [{ t: "set", p: "topic", pt: "msg", to: "refused", tot: "str" }, { t: "set", p: "payload", pt: "msg", to: "error.message", tot: "msg" }], wires: [["b4"]] },
  ];
  fs.writeFileSync(path.join(home, "flows.json"), JSON.stringify(flows));
  const red = start("node", [path.join(__dirname, "node_modules/node-red/red.js"), "-u", home, "-s", path.join(home, "settings.js"), "flows.json"], "node-red");
  const said = () => fs.readFileSync("node-red.log", "utf8");
  await until(() => said().includes("Connected to broker"), "Node-RED", 60).catch((error) => { throw new Error(`${error.message}: ${said()}`); });
  const connection = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`);
  const got = { display: [], refused: [], [TOPIC]: [] };
  connection.on("message", (topic, message) => got[topic].push(message));
  await connection.subscribeAsync(["display", "refused", TOPIC], { qos: 1 });
  await pause(500);
  for (let number = 0; number < 50; number++) {
    await connection.publishAsync("machine/force", `${number / 2}`, { qos: 1 });
  }
  await until(() => got.display.length >= 50, "what Node-RED opened").catch((error) => { throw new Error(`${error.message}: ${said()}`); });
  assert.deepEqual(got.display.map(Number), [...Array(50).keys()].map((number) => number / 2));
  assert.equal(got[TOPIC].length, 50);
  assert.ok(got[TOPIC].every((envelope) => envelope[0] === 0x83 && envelope.length > 20), "an envelope each at the broker");
  // A forged payload and a repeated one do not reach the display.
  await connection.publishAsync(TOPIC, "99", { qos: 1 });
  await connection.publishAsync(TOPIC, got[TOPIC][0], { qos: 1 });
  await until(() => got.refused.length >= 2, "the refusals");
  assert.match(got.refused[0].toString(), /not-envelope/);
  assert.match(got.refused[1].toString(), /repeated/);
  assert.equal(got.display.length, 50);
  await connection.endAsync();
  red.kill();
}

async function main() {
  const port = await freePort();
  fs.writeFileSync("mosquitto.conf", `listener ${port} 127.0.0.1\nallow_anonymous true\nuser root\n`);
  start("/usr/sbin/mosquitto", ["-c", "mosquitto.conf"], "mosquitto");
  await until(() => open(port), "Mosquitto");
  run("keygen", "mqtt", "--group", "line4", "--topic", "plant/line4/#", "--out", "line4.toml");
  const parts = { rules, book: () => book(port), "mqtt.js over 3.1.1": () => client(port, "311"), "mqtt.js over 5": () => client(port, "5"), "Node-RED": () => nodeRed(port) };
  for (const [name, part] of Object.entries(parts)) {
    const began = Date.now();
    await part();
    console.log(`   node: ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  }
}

main()
  .then(() => console.log('{"passed": true}'))
  .catch((error) => { console.error(error); process.exitCode = 1; })
  .finally(() => { children.forEach((child) => child.kill()); setTimeout(() => process.exit(), 200); });
