"use strict";
// A pair of nodes: one seals what goes to an "mqtt out" node, the other opens what comes from an "mqtt in" node. Both share a guard,
// which a configuration node has.

const { Guard } = require("../index.js");

module.exports = function (RED) {
  function GuardNode(config) {
    RED.nodes.createNode(this, config);
    const words = (text) => (text || "").split(",").map((word) => word.trim()).filter(Boolean);
    try {
      this.guard = new Guard({
        keys: words(config.keys),
        state: config.state || undefined,
        publisher: config.publisher || undefined,
        device: config.device || undefined,
      });
    } catch (error) {
      this.error(`${error.message} (remedy: ${error.remedy})`);
    }
    this.on("close", () => {
      if (this.guard) {
        this.guard.close();
      }
    });
  }
  RED.nodes.registerType("antedate-guard", GuardNode);

  /** A node that changes payloads by a guard. */
  function register(type, change) {
    RED.nodes.registerType(type, function (config) {
      RED.nodes.createNode(this, config);
      const owner = RED.nodes.getNode(config.guard);
      if (!owner || !owner.guard) {
        this.status({ fill: "red", shape: "ring", text: "no guard" });
      }
      this.on("input", (message, send, done) => {
        try {
          if (!owner || !owner.guard) {
            throw new Error("there is no guard (remedy: choose one, and see the errors of its start)");
          }
          const changed = change(owner.guard, message);
          this.status({});
          if (changed) {
            send(changed);
          }
          done();
        } catch (error) {
          this.status({ fill: "red", shape: "dot", text: error.code || "failed" });
          done(error.remedy ? new Error(`${message.topic}: ${error.code}: ${error.message} (remedy: ${error.remedy})`) : error);
        }
      });
    });
  }

  register("antedate-seal", (guard, message) => {
    let { payload } = message;
    // As the node "mqtt out" writes them.
    if (!Buffer.isBuffer(payload)) {
      payload = typeof payload === "string" ? payload : typeof payload === "object" ? JSON.stringify(payload) : String(payload);
    }
    message.payload = guard.seal(message.topic, payload);
    return message;
  });

  register("antedate-open", (guard, message) => {
    const opened = guard.open(message.topic, message.payload);
    if (!opened.payload) {
      return null;
    }
    message.payload = opened.payload;
    message.antedate = { publisher: opened.publisher, epoch: opened.epoch, sequence: opened.sequence, time: opened.time };
    return message;
  });
};
