//! Results of the C functions.

use core::ffi::CStr;

/// Zero for success, otherwise the error. The values are those of `antedate.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// A pointer is null where it must not be, a length is too long, or buffers overlap.
    Argument = 1,
    /// An unknown suite, or one not in this build.
    Suite = 2,
    /// The key has the wrong length for the suite.
    KeyLength = 3,
    /// The initial value has another length than the suite's nonces.
    NonceLength = 4,
    /// The memory is smaller than this library's context: header and library come from different
    /// builds.
    Size = 5,
    /// The call does not fit the state of the context: nothing is prepared, it was used already, or
    /// the context was moved or never made.
    State = 6,
    /// A packet with this number or a later one was prepared already.
    Spent = 7,
    /// The template or the front is invalid: a hole outside, overlapping holes, a length without a
    /// rest.
    Template = 8,
    /// Too many bytes, holes or lengths for the context.
    TooLong = 9,
    /// The values differ from the holes in number or length.
    Misfit = 10,
    /// The suite has no such preparation: templates are for suites with a linear MAC, fronts for
    /// the others.
    Unsupported = 11,
    /// The packet is not authentic. No plaintext is released, and the packet is still expected.
    Unauthentic = 12,
    /// The sealer was made before a fork, in the parent process, which goes on with its numbers.
    Forked = 13,
    /// The chip's AES engine failed, or the program gave none. Contexts made before a failure only
    /// take `antedate_*_wipe`.
    Engine = 14,
    /// A malformed frame or record, or one that its key or connection is not for.
    Frame = 15,
    /// The record was opened before, or is older than the window of received numbers.
    Replayed = 16,
    /// A file of an MQTT client, or its state, has a fault.
    Files = 17,
    /// The payload of MQTT was not sealed, or the message not opened.
    Refused = 18,
}

/// The texts of `antedate_strerror`, by number.
pub(crate) const TEXTS: [&CStr; 19] = [
    c"success",
    c"a null pointer, or overlapping buffers",
    c"this library has no such suite: build it with the suite",
    c"the key has another length than the suite's",
    c"the initial value has another length than the suite's nonces",
    c"the context is too small: header and library come from different builds",
    c"nothing is prepared, it was used already, or this is not a live context",
    c"this number or a later one was prepared before: count up, also across restarts",
    c"the template or the front is invalid: a hole outside, overlapping holes, or a length without a rest",
    c"more bytes, holes, blocks or lengths than fit the context",
    c"the values differ from the holes in number or length",
    c"not in this suite or build: templates are for suites 16 to 31, fronts for the others",
    c"the packet is forged or damaged",
    c"the sealer belongs to the parent of this process: make another, with another key",
    c"the AES engine failed or is not set: wipe the contexts, call antedate_set_aes, make them again",
    c"a malformed frame or record, or one of another level, nonce, epoch or connection than its key",
    c"the record was received before, or is older than the window",
    c"a file or the state has a fault: the function's text tells it",
    c"nothing was sealed or opened: antedate_mqtt_why tells the reason",
];
