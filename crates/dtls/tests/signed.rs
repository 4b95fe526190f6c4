//! Both sides of the proxy with raw public keys, and with a list of peers that changes.

mod harness;
#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{Asks, Credentials};
use antedate_dtls::credentials::peers::Peers;
use antedate_dtls::credentials::{Trust, digest, own};
use antedate_dtls::service::{Keys, News};
use antedate_dtls::{Options, status};
use antedate_host::private_file;
use harness::*;
use serde_json::Value;
use skip::skipped;

/// A key in a file, and the line of its public key.
fn key(directory: &Path, name: &str) -> (Credentials, String) {
    let (text, spki) = own::generate().expect("random numbers");
    let file = directory.join(name);
    private_file::create(&file, &text).expect("a file");
    let own = own::Files { key: file, certificates: None }.load().expect("a good key");
    (own, format!("{name} {}\n", digest(&spki)))
}

fn keys(own: Option<&Credentials>, peers: &str) -> Keys {
    let peers = Some(Peers::parse(peers).expect("good lines"));
    Keys { own: own.cloned(), trust: Trust { peers, authorities: None }, ..Keys::default() }
}

fn wait_for(path: &Path, done: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let state = status::ask(path).expect("a state");
        if done(&state) || Instant::now() > end {
            return state;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn listener(options: Options, keys: Keys, news: &Arc<News>) -> Running {
    let news = Arc::clone(news);
    run(move |stop, ready| {
        antedate_dtls::listen(&options, keys, &news, stop, |at| _ = ready.send(at)).expect("it runs");
    })
}

#[test]
fn listed_keys_are_admitted_until_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("status");
    let [(plant, of_plant), (turbine, of_turbine), (other, of_other)] =
        ["plant", "turbine", "other"].map(|name| key(directory.path(), name));
    let (echo, news) = (echo(), Arc::new(News::default()));
    let options_of = |to| Options { settings: give_up_soon(options(any(), to)), ..options(any(), to) };
    let of_server = Options { status: Some(path.clone()), ..options_of(echo.at) };
    let server = listener(of_server, keys(Some(&plant), &of_turbine), &news);
    let side = |own, peers: &str| served(options_of(server.at), keys(own, peers), &Arc::default());
    let good = side(Some(&turbine), &of_plant);
    let known = device(good.at);
    exchange(&known, b"by key");
    let state = status::ask(&path).expect("a state");
    assert_eq!(state["sessions"][0]["identity"], "turbine", "{state:#}");
    assert_eq!(state["sessions"][0]["suite"], "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");

    // A stranger, a client without a key, and one that expects another server.
    let sides = [side(Some(&other), &of_plant), side(None, &of_plant), side(Some(&turbine), &of_other)];
    for side in &sides {
        let device = device(side.at);
        device.send(b"let me in").expect("sent");
        assert!(device.recv(&mut [0; 100]).is_err());
    }
    let all = |state: &Value| {
        let counted = |cause: &str| state["failures"][cause].as_u64() > Some(0);
        counted("not_trusted") && counted("bad_certificate") && counted("peer_alert")
    };
    let state = wait_for(&path, all);
    assert!(all(&state), "{state:#}");

    news.put_keys(keys(Some(&plant), &of_other));
    let gone = |state: &Value| {
        let sessions = state["sessions"].as_array().into_iter().flatten();
        sessions.filter(|session| session["identity"] == "turbine").count() == 0
    };
    let state = wait_for(&path, gone);
    assert!(gone(&state), "{state:#}");
    known.send(b"still here?").expect("sent");
    assert!(known.recv(&mut [0; 100]).is_err());
}

fn give_up_soon(options: Options) -> antedate_channel::dtls::Settings {
    antedate_channel::dtls::Settings { give_up_ms: 700, ..options.settings }
}

#[test]
fn anonymous_clients_are_admitted_if_asked_politely() {
    let directory = tempfile::tempdir().expect("a directory");
    let (plant, of_plant) = key(directory.path(), "plant");
    let echo = echo();
    let mut of_server = options(any(), echo.at);
    of_server.settings.asks = Asks::Politely;
    let server = listener(of_server, keys(Some(&plant), &of_plant), &Arc::default());
    let side = served(options(any(), server.at), keys(None, &of_plant), &Arc::default());
    exchange(&device(side.at), b"by nobody");
}

/// Certificates by OpenSSL's command, and its programs as peers.
mod openssl {
    use std::io::{Read as _, Write as _};
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::{self, Receiver};

    use antedate_channel::dtls::CipherSuite;
    use antedate_dtls::credentials::ServerName;
    use antedate_dtls::credentials::authorities::{Authorities, Files};

    use super::*;

    /// Our suites by OpenSSL's names.
    const SUITES: [(CipherSuite, &str); 5] = [
        (CipherSuite::EcdheEcdsaAes128Ccm8, "ECDHE-ECDSA-AES128-CCM8"),
        (CipherSuite::EcdheEcdsaAes128Ccm, "ECDHE-ECDSA-AES128-CCM"),
        (CipherSuite::EcdheEcdsaAes128GcmSha256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (CipherSuite::EcdheEcdsaAes256GcmSha384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (CipherSuite::EcdheEcdsaChacha20Poly1305Sha256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ];

    fn openssl(directory: &Path, words: &str) {
        let done =
            Command::new("openssl").args(words.split(' ')).current_dir(directory).output().expect("openssl");
        assert!(done.status.success(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// An authority, and the certificates of both sides.
    fn authority(directory: &Path) {
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30";
        openssl(directory, &format!("{new} -keyout ca.key -out ca.pem -subj /CN=authority"));
        for (name, usage) in [("plant", "serverAuth"), ("turbine", "clientAuth")] {
            let signed =
                format!("-CA ca.pem -CAkey ca.key -keyout {name}.key -out {name}.pem -subj /CN={name}");
            let extensions = format!(
                "-addext basicConstraints=CA:FALSE -addext keyUsage=digitalSignature -addext extendedKeyUsage={usage} \
                 -addext subjectAltName=DNS:{name}.example"
            );
            openssl(directory, &format!("{new} {signed} {extensions}"));
            let closed = Command::new("chmod").arg("600").arg(directory.join(format!("{name}.key"))).status();
            assert!(closed.expect("chmod").success());
        }
    }

    fn certified(directory: &Path, name: &str, server: Option<&'static str>) -> Keys {
        let [key, certificates] = ["key", "pem"].map(|kind| directory.join(format!("{name}.{kind}")));
        let own = own::Files { key, certificates: Some(certificates) }.load().expect("they fit");
        let files = Files { authorities: directory.join("ca.pem"), revoked: Vec::new() };
        let server = server.map(|name| ServerName::try_from(name).expect("a name"));
        let authorities = Some(Authorities::load(&files, server).expect("an authority"));
        Keys { own: Some(own), trust: Trust { peers: None, authorities }, ..Keys::default() }
    }

    fn suited(suite: CipherSuite, to: std::net::SocketAddr) -> Options {
        let mut options = options(any(), to);
        options.settings.suites = vec![suite];
        options
    }

    /// A program of OpenSSL, killed on drop.
    struct Program {
        child: Child,
        said: Receiver<u8>,
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    impl Program {
        fn openssl(directory: &Path, name: &str, suite: &str, words: &[&str]) -> Self {
            let (pem, key) = (format!("{name}.pem"), format!("{name}.key"));
            let mut command = Command::new("openssl");
            command.args(words).args(["-dtls1_2", "-cert", &pem, "-key", &key, "-CAfile", "ca.pem"]);
            command
                .args(["-verify_return_error", "-cipher", suite, "-quiet", "-nbio"])
                .current_dir(directory);
            Self::start(&mut command)
        }

        fn start(command: &mut Command) -> Self {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().expect("the program runs");
            let output = child.stdout.take().expect("piped");
            let (say, said) = mpsc::channel();
            std::thread::spawn(move || {
                std::io::BufReader::new(output)
                    .bytes()
                    .map_while(Result::ok)
                    .try_for_each(|byte| say.send(byte))
            });
            Self { child, said }
        }

        fn say(&mut self, line: &str) {
            let input = self.child.stdin.as_mut().expect("piped");
            input.write_all(line.as_bytes()).and_then(|()| input.flush()).expect("taken");
        }

        fn hears(&mut self, line: &str) {
            let mut seen = String::new();
            while !seen.ends_with(line) {
                match self.said.recv_timeout(Duration::from_secs(20)) {
                    Ok(byte) => seen.push(char::from(byte)),
                    Err(_) => panic!("only {seen:?} was said"),
                }
            }
        }
    }

    #[test]
    fn openssl_serves_with_certificates() {
        let directory = tempfile::tempdir().expect("a directory");
        authority(directory.path());
        for (suite, name) in SUITES {
            let at = socket().local_addr().expect("bound");
            let words = ["s_server", "-accept", &at.to_string(), "-Verify", "1"];
            let mut server = Program::openssl(directory.path(), "plant", name, &words);
            let keys = certified(directory.path(), "turbine", Some("plant.example"));
            let side = served(suited(suite, at), keys, &Arc::default());
            let device = device(side.at);
            device.send(b"there\n").expect("sent");
            server.hears("there\n");
            server.say("back\n");
            assert_eq!(answer(&device).as_deref(), Some(&b"back\n"[..]), "{suite}");
        }
        // Another name than the certificate's.
        let at = socket().local_addr().expect("bound");
        let words = ["s_server", "-accept", &at.to_string(), "-Verify", "1"];
        let _server = Program::openssl(directory.path(), "plant", SUITES[0].1, &words);
        let keys = certified(directory.path(), "turbine", Some("other.example"));
        let path = directory.path().join("status");
        let mut options = Options { status: Some(path.clone()), ..suited(SUITES[0].0, at) };
        options.settings.give_up_ms = 2000;
        let side = served(options, keys, &Arc::default());
        device(side.at).send(b"there\n").expect("sent");
        let refused = |state: &Value| state["failures"]["not_trusted"].as_u64() > Some(0);
        assert!(refused(&wait_for(&path, refused)));
    }

    #[test]
    fn openssl_connects_with_certificates() {
        let directory = tempfile::tempdir().expect("a directory");
        authority(directory.path());
        let echo = echo();
        for (suite, name) in SUITES {
            let path = directory.path().join("status");
            let options = Options { status: Some(path.clone()), ..suited(suite, echo.at) };
            let server = listener(options, certified(directory.path(), "plant", None), &Arc::default());
            let at = server.at.to_string();
            let words = ["s_client", "-connect", &at, "-verify_hostname", "plant.example"];
            let mut client = Program::openssl(directory.path(), "turbine", name, &words);
            let known = |state: &Value| state["sessions"][0]["identity"] == "CN=turbine";
            let state = wait_for(&path, |state| known(state) && state["counters"]["handshakes"] == 1);
            assert!(known(&state), "{suite}: {state:#}");
            client.say("there and back\n");
            client.hears("there and back\n");
        }
    }

    /// GnuTLS' words for a raw public key on both sides.
    const RAW: &str =
        "NORMAL:-VERS-ALL:+VERS-DTLS1.2:-KX-ALL:+ECDHE-ECDSA:-CTYPE-ALL:+CTYPE-CLI-RAWPK:+CTYPE-SRV-RAWPK";

    /// A program of GnuTLS with a raw public key.
    fn gnutls(directory: &Path, program: &str, name: &str, words: &[&str]) -> Program {
        openssl(directory, &format!("pkey -in {name} -pubout -out {name}.pub"));
        let mut command = Command::new(program);
        command.args(words).args(["--priority", RAW, "--rawpkkeyfile", name]);
        Program::start(command.args(["--rawpkfile", &format!("{name}.pub")]).current_dir(directory))
    }

    #[test]
    fn gnutls_has_raw_public_keys() {
        if Command::new("gnutls-serv").arg("--version").output().is_err() {
            return skipped("raw public keys with GnuTLS: gnutls-serv is not installed (gnutls-bin)");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let [(plant, of_plant), (turbine, of_turbine)] =
            ["plant", "turbine"].map(|name| key(directory, name));
        // It serves.
        let at = socket().local_addr().expect("bound");
        let words = ["--udp", "--echo", "--port", &at.port().to_string(), "--require-client-cert"];
        let _server = gnutls(directory, "gnutls-serv", "plant", &words);
        std::thread::sleep(Duration::from_secs(1));
        let side = served(options(any(), at), keys(Some(&turbine), &of_plant), &Arc::default());
        exchange(&device(side.at), b"by its server\n");
        // It connects.
        let echo = echo();
        let server = listener(options(any(), echo.at), keys(Some(&plant), &of_turbine), &Arc::default());
        let words = ["--udp", "--insecure", "127.0.0.1", "--port", &server.at.port().to_string()];
        let mut client = gnutls(directory, "gnutls-cli", "turbine", &words);
        client.hears("Simple Client Mode:\n\n");
        client.say("by its client\n");
        client.hears("by its client\n");
    }
}
