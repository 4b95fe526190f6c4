//! The main thread's view of an uplink: opens its port, reopens it when the interface was replaced
//! or has another MTU, and starts its next-hops thread.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use antedate_host::fault::Fault;

use super::message::Message;
use super::neighbours;
use super::uplink::Port;
use crate::config::Config;
use crate::config::overlay::{LongFrames, Overlay};
use crate::config::uplink::Which;
use crate::config::uplink::refused;
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::sys::interface::{self, Interface};
use crate::sys::udp::UdpSocket;

/// An uplink.
pub(super) struct Wire {
    which: Which,
    pub(super) interface: Interface,
    listen: SocketAddr,
    socket: Arc<UdpSocket>,
    /// The interface's index, for the next-hops thread.
    index: Arc<AtomicI32>,
    pub(super) next_hops: JoinHandle<()>,
}

impl Wire {
    /// Opens a port on an interface with packets of at most `mtu` octets. The returned sender asks
    /// the next-hops thread.
    pub(super) fn open(
        config: &Config,
        overlay: &Overlay,
        which: Which,
        (interface, mtu): (&Interface, usize),
        listen: SocketAddr,
        mailbox: &Arc<Mailbox<Message>>,
    ) -> Result<(Self, Port, mpsc::Sender<SocketAddrV4>), Fault> {
        let fragment = overlay.fragmentation == LongFrames::Outside || overlay.private_key_file.is_none();
        let socket = UdpSocket::open(listen, &interface.name, fragment)
            .map_err(|error| refused(&config.file, which.key(), listen, &interface.name, &error))?;
        let index = Arc::new(AtomicI32::new(interface.index));
        let (ask, next_hops) = neighbours::start(
            which,
            config.run.priority,
            Arc::clone(&index),
            listen.ip(),
            Arc::clone(mailbox),
        )
        .map_err(|error| Fault::of_thread(&config.file, &error))?;
        let wire =
            Self { which, interface: interface.clone(), listen, socket: Arc::new(socket), index, next_hops };
        let port = wire.port(config, overlay, interface, mtu)?;
        Ok((wire, port, ask))
    }

    fn port(&self, config: &Config, overlay: &Overlay, to: &Interface, mtu: usize) -> Result<Port, Fault> {
        let bare = overlay.private_key_file.is_none();
        let ways = (mtu, overlay.direct, config.run.qdisc_bypass);
        Port::new(Arc::clone(&self.socket), to, self.listen, ways, bare)
            .and_then(|port| port.bounded(config.run.max_age))
            .map_err(|error| refused(&config.file, self.which.key(), self.listen, &to.name, &error))
    }

    /// Reopens the port if the interface changed. Returns the new MTU.
    pub(super) fn follow(
        &mut self,
        config: &Config,
        overlay: &Overlay,
        mailbox: &Mailbox<Message>,
    ) -> Option<usize> {
        if !changed(&mut self.interface) {
            return None;
        }
        let now = self.interface.find_again().ok()?;
        let mtu = setup::uplink_mtu(config, &now);
        // The socket keeps its port, and is bound to the interface that has the name now.
        let again = self.socket.bind_to(&now.name);
        let again =
            again.map_err(|error| refused(&config.file, self.which.key(), self.listen, &now.name, &error));
        match again.and_then(|()| self.port(config, overlay, &now, mtu)) {
            Ok(port) => {
                mailbox.post(Message::Uplink(self.which, port, mtu));
                tracing::info!(interface = %now.name, mtu, "uplink opened again");
                self.index.store(now.index, Ordering::Relaxed);
                self.interface = now;
                Some(mtu)
            }
            Err(fault) => {
                tracing::error!("{fault:#}");
                None
            }
        }
    }
}

/// Whether an interface was replaced, or has another MTU.
pub(super) fn changed(port: &mut Interface) -> bool {
    !port.still_there() || interface::mtu(&port.name).is_some_and(|mtu| mtu != port.mtu)
}
