//! The main thread's view of an uplink: opens its port, reopens it when the interface was replaced
//! or has another MTU, and starts its next-hops thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use antedate_host::fault::Fault;
use antedate_wire::EthernetAddress;

use super::hops::Asked;
use super::message::Message;
use super::neighbours;
use super::uplink::Port;
use crate::config::Config;
use crate::config::overlay::{LongFrames, Overlay};
use crate::config::uplink::Which;
use crate::config::uplink::refused;
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::sys::filter::Share;
use crate::sys::interface::{self, Interface};
use crate::sys::udp::UdpSocket;

/// An opened uplink with its port, and the sender that asks its next-hops thread.
pub(super) type Opened = (Wire, Port, mpsc::Sender<Asked>);

/// An uplink, of one worker.
pub(super) struct Wire {
    which: Which,
    pub(super) interface: Interface,
    listen: SocketAddr,
    socket: Arc<UdpSocket>,
    /// The worker with this port, and its mailbox.
    share: Option<Share>,
    mailbox: Arc<Mailbox<Message>>,
    /// The interface's index, for the next-hops thread.
    index: Arc<AtomicI32>,
    pub(super) next_hops: JoinHandle<()>,
}

impl Wire {
    /// Opens a port on an interface with packets of at most `mtu` octets for each worker, in the order
    /// of the mailboxes. The returned senders ask the next-hops threads.
    pub(super) fn open(
        config: &Config,
        overlay: &Overlay,
        which: Which,
        (interface, mtu): (&Interface, usize),
        listen: SocketAddr,
        mailboxes: &[Arc<Mailbox<Message>>],
    ) -> Result<Vec<Opened>, Fault> {
        let fragment = overlay.fragmentation == LongFrames::Outside || overlay.private_key_file.is_none();
        let workers = mailboxes.len() as u8;
        let (name, file) = (&interface.name, &config.file);
        let sockets = match workers {
            1 => UdpSocket::open(listen, name, fragment).map(|socket| vec![socket]),
            _ => UdpSocket::open_shared(listen, name, fragment, workers),
        };
        let sockets = sockets.map_err(|error| refused(file, which.key(), listen, name, &error))?;
        let all = sockets.into_iter().zip(mailboxes).zip(0..);
        all.map(|((socket, mailbox), own)| {
            let share = (workers > 1).then_some(Share { own, of: workers });
            Self::of_worker(config, overlay, which, (interface, mtu), listen, (socket, share), mailbox)
        })
        .collect()
    }

    fn of_worker(
        config: &Config,
        overlay: &Overlay,
        which: Which,
        (interface, mtu): (&Interface, usize),
        listen: SocketAddr,
        (socket, share): (UdpSocket, Option<Share>),
        mailbox: &Arc<Mailbox<Message>>,
    ) -> Result<Opened, Fault> {
        let index = Arc::new(AtomicI32::new(interface.index));
        let (ask, next_hops) = neighbours::start(
            which,
            config.run.priority,
            Arc::clone(&index),
            listen.ip(),
            Arc::clone(mailbox),
        )
        .map_err(|error| Fault::of_thread(&config.file, &error))?;
        let (interface, socket, mailbox) = (interface.clone(), Arc::new(socket), Arc::clone(mailbox));
        let wire = Self { which, interface, listen, socket, share, mailbox, index, next_hops };
        let port = wire.port(config, overlay, &wire.interface, mtu)?;
        Ok((wire, port, ask))
    }

    fn port(&self, config: &Config, overlay: &Overlay, to: &Interface, mtu: usize) -> Result<Port, Fault> {
        let bare = overlay.private_key_file.is_none();
        let ways = (mtu, overlay.direct, config.run.qdisc_bypass);
        Port::new(Arc::clone(&self.socket), to, self.listen, ways, bare, self.share)
            .and_then(|port| port.bounded(config.run.max_age))
            .map_err(|error| refused(&config.file, self.which.key(), self.listen, &to.name, &error))
    }

    /// Reopens the port if the interface changed. Returns the new MTU.
    pub(super) fn follow(&mut self, config: &Config, overlay: &Overlay) -> Option<usize> {
        // One line for all workers.
        let first = self.share.is_none_or(|share| share.own == 0);
        if !changed(&mut self.interface) {
            let address = interface::address(&self.interface.name)?;
            if address == self.interface.address {
                return None;
            }
            self.mailbox.post(Message::Link(self.which, address));
            self.interface.address = address;
            let address = EthernetAddress(address);
            if first {
                tracing::info!(interface = %self.interface.name, %address, "the uplink has another address");
            }
            return Some(config.uplink.carries(self.interface.mtu));
        }
        let now = self.interface.find_again().ok()?;
        let mtu = setup::uplink_mtu(config, &now);
        // The socket keeps its port, and is bound to the interface that has the name now.
        let again = self.socket.bind_to(&now.name);
        let again =
            again.map_err(|error| refused(&config.file, self.which.key(), self.listen, &now.name, &error));
        match again.and_then(|()| self.port(config, overlay, &now, mtu)) {
            Ok(port) => {
                self.mailbox.post(Message::Uplink(self.which, port, mtu));
                if first {
                    tracing::info!(interface = %now.name, mtu, "uplink opened again");
                }
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
