//! Settings and peers that change between two frames.
//!
//! The main thread prepares a [`Change`]; the forwarding thread exchanges its parts, and returns
//! those that it had, so that it computes and frees nothing.

use std::sync::Arc;
use std::sync::mpsc::Sender as Post;

use antedate_channel::wireguard::{GonePeer, ReadyKeys, ReadyPeer};

use super::peers::Peer;
use crate::config::overlay::{Host, Overlay};
use crate::config::tunnel_keys::Secret;
use crate::frames::gate::Gate;
use crate::run::governor::Mode;
use crate::sys::age::Bounds;

/// Settings to take over.
pub struct Change {
    /// The policy.
    pub gate: Arc<Gate>,
    /// The policy without `all`.
    pub named: Gate,
    /// The ages from which on frames are dropped.
    pub max_age: Bounds,
    /// How the thread waits.
    pub mode: Mode,
    /// The settings of `[overlay]`, with the peers that stay, then those that join.
    pub overlay: Overlay,
    /// The thread that resolves names of peers, if there are any.
    pub names: Option<Post<Host>>,
    /// The peers that stay: their places before, in rising order, and the preshared keys.
    pub stay: Vec<(usize, Option<Secret>)>,
    /// Our static key and those of the peers that stay, if there is WireGuard.
    pub keys: Option<ReadyKeys>,
    /// Our static key is another one.
    pub own_key_changed: bool,
    /// The peers that join, with their keys if there is WireGuard.
    pub join: Vec<(Peer, Option<ReadyPeer>)>,
    /// The peers that are gone.
    pub gone: Vec<(Peer, Option<GonePeer>)>,
    /// The places of those whose preshared key is another one.
    pub rekeyed: Vec<usize>,
}
