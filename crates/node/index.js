"use strict";
// MQTT payloads, sealed from publisher to subscriber. The native part is `antedate.node`.

const native = require("./antedate.node");

/** A failure: `code` names its kind, `remedy` says what to do. */
class AntedateError extends Error {
  constructor(code, message, remedy) {
    super(message);
    this.name = "AntedateError";
    this.code = code;
    this.remedy = remedy;
  }
}

/** The native part puts code, message and remedy into the text of its errors. */
function told(error) {
  try {
    const { code, message, remedy } = JSON.parse(error.message);
    return new AntedateError(code, message, remedy);
  } catch {
    return error;
  }
}

function call(work) {
  try {
    return work();
  } catch (error) {
    throw told(error);
  }
}

function octets(payload) {
  return typeof payload === "string" ? Buffer.from(payload) : payload;
}

/** Makes an empty state directory, once for each publisher's name. */
function createState(directory) {
  call(() => native.createState(directory));
}

/** All groups of a client. It seals payloads and opens messages. */
class Guard {
  #inner;

  constructor({ keys, state, publisher, device } = {}) {
    if (!Array.isArray(keys) || keys.length === 0) {
      throw new AntedateError("configuration", "keys names no group file", "antedate keygen mqtt makes one");
    }
    this.#inner = call(() => new native.Guard({ keys, state, publisher, device }));
    for (const warning of this.#inner.warnings) {
      process.emitWarning(warning, "AntedateWarning");
    }
  }

  get rotationTopics() {
    return this.#inner.rotationTopics;
  }

  get hasKeys() {
    return call(() => this.#inner.hasKeys);
  }

  covers(topic) {
    return call(() => this.#inner.covers(topic));
  }

  seal(topic, payload) {
    return call(() => this.#inner.seal(topic, octets(payload)));
  }

  open(topic, message, { durable = true } = {}) {
    return call(() => this.#inner.openNow(topic, octets(message), durable));
  }

  async openLater(topic, message) {
    try {
      return await this.#inner.openLater(topic, octets(message));
    } catch (error) {
      throw told(error);
    }
  }

  flush() {
    call(() => this.#inner.flush());
  }

  idle() {
    call(() => this.#inner.idle());
  }

  close() {
    call(() => this.#inner.close());
  }
}

module.exports = { Guard, AntedateError, createState };
