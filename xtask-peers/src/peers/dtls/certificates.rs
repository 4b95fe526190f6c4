//! OpenSSL with certificates, and GnuTLS with certificates and raw public keys, as client and server of
//! ours: all suites, a bad wire, and certificates that are refused.

use super::relay::{Faults, Relay};
use super::talk::{device_speaks, talk_with_gnutls_cli};
use super::{BAD_WIRE, Echo, MESSAGES, Place, client_is_openssl, free, listening, server_is_openssl};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use xtask::shell::{Run, antedate, program, until};

/// OpenSSL's name of the suite, and the registry's.
const SUITES: [(&str, &str); 5] = [
    ("ECDHE-ECDSA-AES128-CCM8", "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
    ("ECDHE-ECDSA-AES128-CCM", "TLS_ECDHE_ECDSA_WITH_AES_128_CCM"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];
/// GnuTLS' words for certificates, and for raw public keys.
const X509: &str = "NORMAL:-VERS-ALL:+VERS-DTLS1.2:-KX-ALL:+ECDHE-ECDSA";
const RAW: &str =
    "NORMAL:-VERS-ALL:+VERS-DTLS1.2:-KX-ALL:+ECDHE-ECDSA:-CTYPE-ALL:+CTYPE-CLI-RAWPK:+CTYPE-SRV-RAWPK";

/// Keys and certificates in place of pre-shared keys.
pub(super) struct Signed {
    dir: PathBuf,
    /// Whether both sides show raw public keys.
    raw: bool,
}

impl Signed {
    /// Makes an authority, certificates of both sides, those that are refused, and raw public keys.
    fn new(dir: &Path) -> Result<Self, String> {
        let dir = dir.join("certificates");
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("new")).map_err(|e| e.to_string())?;
        let this = Self { dir, raw: false };
        this.write("ca.cnf", CONFIGURATION)?;
        this.write("index", "")?;
        this.write("serial", "1000\n")?;
        this.write("number", "01\n")?;
        this.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 30 \
             -subj /CN=authority -addext keyUsage=critical,keyCertSign,cRLSign",
        )?;
        this.issue("server", "server", "")?;
        this.issue("client", "client", "")?;
        this.issue("expired", "client", "-startdate 20200101000000Z -enddate 20210101000000Z")?;
        this.issue("revoked", "client", "")?;
        this.issue("wrong-use", "server", "")?;
        this.openssl("ca -config ca.cnf -revoke revoked.pem")?;
        this.openssl("ca -config ca.cnf -gencrl -crldays 7 -out crl.pem")?;
        // The second file is of those who know it.
        for (name, known) in [("plant", "plants"), ("turbine", "turbines")] {
            let mut keygen = program(antedate());
            keygen.args(["keygen", "raw-key", "--name", name, "--out"]).arg(this.at(&format!("{name}.raw")));
            let line = keygen.read(10)?;
            this.openssl(&format!("pkey -in {name}.raw -pubout -out {name}.pub"))?;
            this.write(known, &line)?;
        }
        Ok(this)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn path(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.at(name), text).map_err(|e| format!("{name}: {e}"))
    }

    fn openssl(&self, words: &str) -> Result<(), String> {
        let mut command = program("openssl");
        command.args(words.split_whitespace()).current_dir(&self.dir);
        command.read(20).map(drop)
    }

    /// Makes a key and a certificate of the authority for a use.
    fn issue(&self, name: &str, usage: &str, more: &str) -> Result<(), String> {
        let key = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        self.openssl(&format!("{key} -keyout {name}.key -out {name}.csr -subj /CN={name}"))?;
        let days = if more.is_empty() { "-days 30" } else { more };
        self.openssl(&format!(
            "ca -batch -config ca.cnf -extensions {usage} {days} -notext -in {name}.csr -out {name}.pem"
        ))
    }

    /// The options of our side.
    pub(super) fn ours(&self, verb: &str) -> Vec<String> {
        let own = if verb == "listen" { ["plant.raw", "turbines"] } else { ["turbine.raw", "plants"] };
        if self.raw {
            return ["--key".to_owned(), self.path(own[0]), "--peers".to_owned(), self.path(own[1])].to_vec();
        }
        let name = if verb == "listen" { "server" } else { "client" };
        let mut words = self.shown(name);
        words.extend(["--ca".to_owned(), self.path("ca.pem")]);
        if verb == "connect" {
            words.extend(["--name", "plant.example"].map(str::to_owned));
        }
        words
    }

    fn shown(&self, name: &str) -> Vec<String> {
        let [key, certificate] = ["key", "pem"].map(|kind| self.path(&format!("{name}.{kind}")));
        ["--key".to_owned(), key, "--certificate".to_owned(), certificate].to_vec()
    }

    /// The options of OpenSSL's programs, which ask for our certificate and judge it.
    pub(super) fn theirs(&self, verb: &str) -> Vec<String> {
        let (name, asks): (_, &[&str]) = match verb {
            "s_server" => ("server", &["-Verify", "1"]),
            _ => ("client", &["-verify", "1", "-verify_hostname", "plant.example"]),
        };
        let [key, certificate] = ["key", "pem"].map(|kind| self.path(&format!("{name}.{kind}")));
        let words =
            ["-cert", &certificate, "-key", &key, "-CAfile", &self.path("ca.pem"), "-verify_return_error"];
        words.iter().chain(asks).map(|word| (*word).to_owned()).collect()
    }
}

/// The authority's configuration.
const CONFIGURATION: &str = "[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = new
crlnumber = number
default_md = sha256
certificate = ca.pem
private_key = ca.key
policy = any
unique_subject = no
[any]
commonName = supplied
[server]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:plant.example
[client]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
";

/// OpenSSL with certificates.
pub(super) fn openssl(place: &Place) -> Result<String, String> {
    let place = &place.with_signed(Signed::new(&place.dir)?);
    for suite in SUITES {
        client_is_openssl(place, suite, Faults::default())?;
        server_is_openssl(place, suite, Faults::default())?;
    }
    let mut notes = vec![format!("with certificates both ways with {} suites", SUITES.len())];
    notes.push(format!("bad wire: {}", client_is_openssl(place, SUITES[0], BAD_WIRE)?));
    notes.push(server_is_openssl(place, SUITES[0], BAD_WIRE)?);
    notes.push(refused(place)?);
    Ok(notes.join("; "))
}

/// Clients whose certificate is refused, with the counter and the word of the log.
fn refused(place: &Place) -> Result<String, String> {
    let signed = place.signed.as_ref().ok_or("no certificates")?;
    let cases = [
        ("expired", "expired", "has expired"),
        ("revoked", "revoked", "is revoked"),
        ("wrong-use", "not_trusted", "is not for this use"),
        ("", "bad_certificate", "has shown no certificate"),
    ];
    let crl = signed.path("crl.pem");
    for (name, counter, word) in cases {
        let echo = Echo::start()?;
        let server = place.ours("listen", free()?, echo.at, &["--crl", &crl, "--give-up-ms", "1500"])?;
        let at = listening(&server)?.to_string();
        let mut client = program("openssl");
        client.args(["s_client", "-dtls1_2", "-connect", &at, "-CAfile", &signed.path("ca.pem"), "-nbio"]);
        if !name.is_empty() {
            let [key, certificate] = ["key", "pem"].map(|kind| signed.path(&format!("{name}.{kind}")));
            client.args(["-cert", &certificate, "-key", &key]);
        }
        let (client, stdin) = client.piped(&place.dir.join("openssl-refused.log"))?;
        until(&format!("the refusal of {name}"), 10.0, || {
            let state = server.status().ok()?;
            (state["failures"][counter] == 1 && state["counters"]["handshakes"] == 0).then_some(())
        })
        .map_err(|e| format!("{e}\n{:#}\n{}", server.status().unwrap_or_default(), client.output()))?;
        if !server.process.output().contains(word) {
            return Err(format!("{word} is not in the log:\n{}", server.process.output()));
        }
        drop(stdin);
        let _ = client.stop(5);
        server.stop()?;
    }
    Ok(format!("{} certificates refused", cases.len()))
}

/// GnuTLS with certificates and with raw public keys.
pub(super) fn gnutls(place: &Place) -> Result<String, String> {
    let mut signed = Signed::new(&place.dir)?;
    let mut notes = Vec::new();
    for raw in [false, true] {
        signed.raw = raw;
        let place = &place.with_signed(Signed { dir: signed.dir.clone(), raw });
        for faults in [Faults::default(), BAD_WIRE] {
            let client = gnutls_client(place, &signed, faults)?;
            let server = gnutls_server(place, &signed, faults)?;
            notes.push(format!("{client} and {server} of {MESSAGES}"));
        }
    }
    Ok(format!("with certificates, then raw public keys: {}", notes.join(", ")))
}

/// GnuTLS' words for what it shows.
fn words(signed: &Signed, name: [&str; 2]) -> Vec<String> {
    let [raw, certified] = name;
    let pairs = if signed.raw {
        [
            ("--priority", RAW.to_owned()),
            ("--rawpkkeyfile", signed.path(&format!("{raw}.raw"))),
            ("--rawpkfile", signed.path(&format!("{raw}.pub"))),
        ]
    } else {
        [
            ("--priority", X509.to_owned()),
            ("--x509keyfile", signed.path(&format!("{certified}.key"))),
            ("--x509certfile", signed.path(&format!("{certified}.pem"))),
        ]
    };
    pairs.into_iter().flat_map(|(word, value)| [word.to_owned(), value]).collect()
}

fn gnutls_client(place: &Place, signed: &Signed, faults: Faults) -> Result<usize, String> {
    let echo = Echo::start()?;
    let server = place.ours("listen", free()?, echo.at, &[])?;
    let relay = Relay::to(listening(&server)?, faults, 17)?;
    let mut client = program("gnutls-cli");
    client.args(["--udp", "--port", &relay.at.port().to_string(), "--insecure"]);
    client.args(words(signed, ["turbine", "client"])).arg("127.0.0.1");
    talk_with_gnutls_cli(place, client, server, faults)
}

fn gnutls_server(place: &Place, signed: &Signed, faults: Faults) -> Result<String, String> {
    let at = free()?;
    let mut server: Command = program("gnutls-serv");
    server.args(["--udp", "--echo", "--port", &at.port().to_string(), "--require-client-cert"]);
    server.args(words(signed, ["plant", "server"]));
    let server = server.background(&place.dir.join("gnutls-serv.log"))?;
    sleep(Duration::from_millis(500));
    let came =
        device_speaks(place, "gnutls-serv", at, faults).map_err(|e| format!("{e}\n{}", server.output()))?;
    let _ = server.stop(5);
    Ok(came)
}
