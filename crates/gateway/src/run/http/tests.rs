//! An endpoint with real sockets, and clients that do all wrong.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::request::{LONGEST, Request};
use super::serve::{CLIENTS, STREAMS};
use super::*;

/// Octets of the document.
const LARGE: usize = 4 << 20;

/// A large document, and a stream that counts its events.
struct Large(Arc<AtomicU64>, Arc<[u8]>);

impl Site for Large {
    fn answer(&mut self, request: &Request<'_>) -> Answer {
        match request.path {
            "/" => Answer::Document("text/plain", Body::Static(b"here")),
            "/large" => Answer::Document("text/plain", Body::Shared(Arc::clone(&self.1))),
            "/events" => Answer::Stream,
            _ => Answer::Missing("see /\n"),
        }
    }

    fn event(&mut self) -> Arc<[u8]> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        format!("data: {number}\n\n").into_bytes().into()
    }
}

fn started(guard: Guard) -> (Arc<AtomicU64>, Endpoint) {
    let events = Arc::new(AtomicU64::new(0));
    let site = Large(Arc::clone(&events), vec![b'x'; LARGE].into());
    let listening = listen(Path::new("g.toml"), "page", (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    (events, listening.serve("page", guard, Box::new(site)).unwrap())
}

fn connect(endpoint: &Endpoint) -> TcpStream {
    let client = TcpStream::connect(endpoint.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

/// The whole answer, or as far as it comes.
fn ask(endpoint: &Endpoint, request: &str) -> String {
    let mut client = connect(endpoint);
    let _ = client.write_all(request.as_bytes());
    let mut answer = String::new();
    let _ = client.read_to_string(&mut answer);
    answer
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Reads until `text` came.
fn wait_for(client: &mut TcpStream, text: &str) {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&all).contains(text) {
        let read = client.read(&mut piece).unwrap();
        assert!(read > 0, "ended after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..read]);
    }
}

#[test]
fn documents_are_sent_whole_and_guarded() {
    let (_, endpoint) = started(Guard::default());
    let answer = ask(&endpoint, &get("/?x=1"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhere"), "{answer}");
    for field in
        ["Content-Security-Policy: default-src 'none'", "nosniff", "X-Frame-Options: DENY", "no-store"]
    {
        assert!(answer.contains(field), "{field}");
    }
    assert_eq!(
        ask(&endpoint, &get("/large")).len() - ask(&endpoint, &get("/").replace("GET", "HEAD")).len() - 6,
        LARGE
    );
    let head = ask(&endpoint, "HEAD / HTTP/1.0\r\n\r\n");
    assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(&endpoint, &get("/x")).starts_with("HTTP/1.1 404 "));
}

#[test]
fn others_are_refused() {
    let (events, endpoint) = started(Guard { names: vec!["gate.example".into()], token: None });
    let request = |fields: &str| format!("GET /events HTTP/1.1\r\n{fields}\r\n");
    for (request, status) in [
        (request("Host: evil.example\r\n"), "421"),
        (request("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n"), "403"),
        (request(""), "400"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), "405"),
        ("\r\n\r\n".into(), "400"),
    ] {
        let answer = ask(&endpoint, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    assert!(ask(&endpoint, "GET / HTTP/1.1\r\nHost: gate.example\r\n\r\n").starts_with("HTTP/1.1 200 "));
    let long = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(2 * LONGEST));
    assert_eq!(ask(&endpoint, &long), "");
    assert_eq!(events.load(Ordering::Relaxed), 0);
}

#[test]
fn token_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    antedate_host::private_file::create(&file, "0123456789abcdef\n").unwrap();
    let token = Token::load(&file, antedate_host::process::user()).unwrap();
    let (_, endpoint) = started(Guard { token: Some(token), names: Vec::new() });
    let refused = ask(&endpoint, &get("/"));
    assert!(
        refused.starts_with("HTTP/1.1 401 ") && refused.contains("WWW-Authenticate: Basic "),
        "{refused}"
    );
    let bearer = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n";
    assert!(ask(&endpoint, bearer).ends_with("here"));
    endpoint.admit(Guard::default());
    assert!(ask(&endpoint, &get("/")).ends_with("here"));
}

#[test]
fn viewers_get_events_until_they_leave() {
    let (_, endpoint) = started(Guard::default());
    let mut viewer = connect(&endpoint);
    viewer.write_all(get("/events").as_bytes()).unwrap();
    for number in 0..3 {
        wait_for(&mut viewer, &format!("data: {number}\n\n"));
    }
    let mut more: Vec<_> = (1..STREAMS).map(|_| connect(&endpoint)).collect();
    for viewer in &mut more {
        viewer.write_all(get("/events").as_bytes()).unwrap();
        wait_for(viewer, "data: ");
    }
    assert!(ask(&endpoint, &get("/events")).starts_with("HTTP/1.1 503 "));
    drop(more);
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let mut again = connect(&endpoint);
        again.write_all(get("/events").as_bytes()).unwrap();
        let mut answer = [0; 12];
        again.read_exact(&mut answer).unwrap();
        if &answer == b"HTTP/1.1 200" {
            break;
        }
        assert!(Instant::now() < end, "places of those that left are free again");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Clients that say nothing, say half, take nothing of a large answer, or leave at once.
#[test]
fn hostile_clients_leave_room_for_others() {
    let (_, endpoint) = started(Guard::default());
    let mut held = Vec::new();
    for number in 0..3 * CLIENTS {
        let mut client = connect(&endpoint);
        let _ = match number % 5 {
            0 => Ok(()),
            1 => client.write_all(b"GET / HT"),
            2 => client.write_all(get("/large").as_bytes()),
            3 => client.write_all(get("/events").as_bytes()),
            _ => continue,
        };
        held.push(client);
        if number % 16 == 0 {
            assert!(ask(&endpoint, &get("/")).ends_with("here"), "{number}");
        }
    }
    let asked = Instant::now();
    assert!(ask(&endpoint, &get("/")).ends_with("here"));
    assert!(asked.elapsed() < Duration::from_secs(4), "nobody waits for a slow client's time");
}

#[test]
fn endpoint_leaves_its_port() {
    let (_, endpoint) = started(Guard::default());
    let at = endpoint.address();
    let taken = listen(Path::new("g.toml"), "page", at).unwrap_err();
    assert!(taken.what.contains("cannot listen on 127.0.0.1") && taken.remedy.contains("page.listen"));
    let _silent = connect(&endpoint);
    drop(endpoint);
    listen(Path::new("g.toml"), "page", at).unwrap();
}
