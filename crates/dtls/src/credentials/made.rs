//! Certificates for tests, made by OpenSSL's command.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use antedate_channel::dtls::{CertificateType, Shown};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A directory with an authority: `ca.pem`, `ca.key`.
pub(crate) struct Made(tempfile::TempDir);

impl Made {
    pub(crate) fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        made.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 3650 \
             -subj /CN=authority -addext keyUsage=critical,keyCertSign,cRLSign",
        );
        made
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    /// Runs `openssl` in the directory. No argument has a space.
    pub(crate) fn openssl(&self, arguments: &str) {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        self.run(&words);
    }

    fn run(&self, words: &[&str]) {
        let done = Command::new("openssl").args(words).current_dir(self.0.path()).output().expect("openssl");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Leaves a file to its owner alone.
    pub(crate) fn close(&self, name: &str) {
        assert!(Command::new("chmod").arg("600").arg(self.at(name)).status().unwrap().success());
    }

    /// A certificate of the authority for 30 days, in DER; `NAME.pem` and `NAME.key` are its files.
    pub(crate) fn leaf(&self, name: &str, subject: &str, extensions: &[&str]) -> Vec<u8> {
        self.signed_by(name, subject, "ca", extensions)
    }

    pub(crate) fn signed_by(&self, name: &str, subject: &str, issuer: &str, extensions: &[&str]) -> Vec<u8> {
        self.made(name, subject, issuer, extensions, "prime256v1")
    }

    pub(crate) fn on_curve(&self, name: &str, subject: &str, curve: &str) -> Vec<u8> {
        self.made(name, subject, "ca", &[], curve)
    }

    /// A certificate of an authority below the authority, behind that authority's.
    pub(crate) fn below(&self, name: &str, subject: &str) -> (Vec<u8>, Vec<u8>) {
        let between = self.leaf(
            "between",
            "/CN=between",
            &["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"],
        );
        (between, self.signed_by(name, subject, "between", &[]))
    }

    fn made(&self, name: &str, subject: &str, issuer: &str, extensions: &[&str], curve: &str) -> Vec<u8> {
        let [key, pem, der] = ["key", "pem", "der"].map(|kind| format!("{name}.{kind}"));
        let curve = format!("ec_paramgen_curve:{curve}");
        let [issuer_pem, issuer_key] = ["pem", "key"].map(|kind| format!("{issuer}.{kind}"));
        let mut words = vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", &curve, "-nodes", "-days", "30"];
        words.extend(["-keyout", &key, "-out", &pem, "-subj", subject]);
        words.extend(["-CA", &issuer_pem, "-CAkey", &issuer_key]);
        if !extensions.iter().any(|one| one.starts_with("basicConstraints")) {
            words.extend(["-addext", "basicConstraints=CA:FALSE"]);
        }
        for extension in extensions {
            words.extend(["-addext", extension]);
        }
        self.run(&words);
        self.close(&key);
        self.run(&["x509", "-in", &pem, "-outform", "DER", "-out", &der]);
        self.read(&der)
    }

    /// The authority's list of revoked certificates, for seven days.
    pub(crate) fn revoke(&self, names: &[&str], list: &str) {
        let config = "[ca]\ndefault_ca=x\n[x]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n\
            certificate=ca.pem\nprivate_key=ca.key\ncrl_extensions=y\n[y]\nauthorityKeyIdentifier=keyid\n";
        std::fs::write(self.at("ca.cnf"), config).unwrap();
        std::fs::write(self.at("index"), "").unwrap();
        std::fs::write(self.at("number"), "01\n").unwrap();
        for name in names {
            self.run(&["ca", "-config", "ca.cnf", "-revoke", &format!("{name}.pem")]);
        }
        self.run(&["ca", "-config", "ca.cnf", "-gencrl", "-crldays", "7", "-out", list]);
    }
}

/// Certificates as a peer shows them.
pub(crate) fn shown(chain: &[&[u8]], by_server: bool) -> Shown {
    let length = |octets: usize| (octets as u32).to_be_bytes()[1..].to_vec();
    let list: Vec<u8> = chain.iter().flat_map(|one| [length(one.len()), one.to_vec()].concat()).collect();
    Shown::new(CertificateType::X509, by_server, &[length(list.len()), list].concat()).unwrap()
}
