/** An authentic and new payload, and its origin. */
export interface Message {
  payload: Buffer;
  publisher: string;
  epoch: number;
  sequence: number;
  /** The time of sealing in seconds since 1970, on topics with a most age. */
  time?: number;
  group?: undefined;
}

/** A rotation message of the group's manager, which was followed. */
export interface Rotation {
  payload?: undefined;
  group: string;
  epoch: number;
}

/**
 * A failure. `code` is `configuration`, `state`, `no-group`, `no-key`, `payload`, `not-rotation`, or the reason of a refused
 * message: `not-envelope`, `unauthentic`, `repeated`, `late`, `stale` and the others of the chapter "MQTT".
 */
export class AntedateError extends Error {
  readonly code: string;
  readonly remedy: string;
}

export interface Options {
  /** Group files. */
  keys: string[];
  /** The directory of the sequence numbers. Required for sealing. */
  state?: string;
  /** The publisher's name, unique in the group. Default: the device's. */
  publisher?: string;
  /** The device's own key, for groups with a manager. */
  device?: string;
}

/** Makes an empty state directory, once for each publisher's name. */
export function createState(directory: string): void;

/** All groups of a client. It seals payloads and opens messages. */
export class Guard {
  constructor(options: Options);
  /** Topics to subscribe to as well, in groups with a manager. */
  readonly rotationTopics: string[];
  /** Whether every group has a key. */
  readonly hasKeys: boolean;
  /** Whether a group protects a topic. */
  covers(topic: string): boolean;
  /** Seals a payload. Its number was reserved on the disk before. */
  seal(topic: string, payload: Buffer | Uint8Array | string): Buffer;
  /** Opens a message. With `durable` (default) its number is on the disk when it returns. */
  open(topic: string, message: Buffer | Uint8Array, options?: { durable?: boolean }): Message | Rotation;
  /** As `open`, with the disk on another thread. Opens in the order of the calls are not guaranteed. */
  openLater(topic: string, message: Buffer | Uint8Array): Promise<Message | Rotation>;
  /** Makes durable what was opened without `durable`. */
  flush(): void;
  /** Prepares the next payloads. Call it when there is nothing to do. */
  idle(): void;
  /** Writes the state, and ends. */
  close(): void;
}
