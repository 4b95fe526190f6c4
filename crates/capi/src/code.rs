//! What a call returns.

/// Zero for success, else what was wrong. The values are those of `antedate.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// All is well.
    Ok = 0,
    /// A pointer is null where it must not be, a length is too long, or buffers overlap.
    Argument = 1,
    /// No such suite, or not in this build.
    Suite = 2,
    /// The key has not the suite's length.
    KeyLength = 3,
    /// The initial value has not the length of the suite's nonces.
    NonceLength = 4,
    /// The memory is smaller than this library's context: header and library are of different builds.
    Size = 5,
    /// The call does not fit what was done before: nothing is prepared, it was used already, or the context was moved or
    /// never made.
    State = 6,
    /// A packet with this number or a later one was prepared already.
    Spent = 7,
    /// The template or the front is not one: a hole outside, holes that overlap, a length that leaves nothing.
    Template = 8,
    /// More bytes than the context takes, or more holes or lengths.
    TooLong = 9,
    /// The values are not as many or not as long as the holes.
    Misfit = 10,
    /// The suite cannot be prepared so: templates are for suites with a linear MAC, fronts for the others.
    Unsupported = 11,
    /// The packet is not authentic. Nothing of it was given out, and it is still expected.
    Unauthentic = 12,
}
