//! The pages of both gateways, served by this process. The gateways' own network has no browser.

use std::net::SocketAddr;
use std::path::Path;

use antedate_gateway::run::control::{Request, ask};
use antedate_gateway::run::http::{Endpoint, Guard, Listening, listen};
use antedate_gateway::run::page::Page;

use super::DemoError;
use super::gateway::Gateway;

/// Opens the sockets of both pages: this address, and the next port.
pub(super) fn open(at: SocketAddr) -> Result<[Listening; 2], DemoError> {
    let usage = |what: String| DemoError::Usage(format!("--page: {what}"));
    if !at.ip().is_loopback() {
        return Err(usage(format!("{at} can be reached from other machines; give an address of loopback")));
    }
    let next = match at.port() {
        0 => 0,
        port => port.checked_add(1).ok_or_else(|| usage(format!("there is no port behind {port}")))?,
    };
    let open = |at| listen(Path::new("--page"), "page", at).map_err(|fault| usage(fault.what));
    Ok([open(at)?, open(SocketAddr::new(at.ip(), next))?])
}

/// Serves them, with the state that the gateways give, and says where.
pub(super) fn serve(pages: [Listening; 2], gateways: &[Gateway]) -> Result<Vec<Endpoint>, DemoError> {
    let serve = |(listening, gateway): (Listening, &Gateway)| {
        let socket = gateway.socket().to_owned();
        let status = move || ask(&socket, Request::Status {}).ok()?.status.map(|status| *status);
        listening.serve("page", Guard::default(), Box::new(Page::new(status)))
    };
    let served: std::io::Result<Vec<Endpoint>> = pages.into_iter().zip(gateways).map(serve).collect();
    let served = served.map_err(|error| DemoError::Start(format!("the thread of a page: {error}")))?;
    for (name, endpoint) in ["A", "B"].iter().zip(&served) {
        eprintln!("Gateway {name}: http://{}/", endpoint.address());
    }
    Ok(served)
}
