use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const XPN: &str = "\
suite = \"gcm-aes-xpn-128\"
[[sa]]
an = 0
key_id = \"00000000000000000000000000000001\"
key = \"000102030405060708090a0b0c0d0e0f\"
salt = \"e0e1e2e3e4e5e6e7e8e9eaeb\"
[[sa]]
an = 1
key_id = \"00000000000000000000000000000002\"
key = \"101112131415161718191a1b1c1d1e1f\"
salt = \"e0e1e2e3e4e5e6e7e8e9eaec\"
[[member]]
name = \"a\"
sci = \"02:00:00:00:00:01/1\"
ssci = 2
[[member]]
name = \"b\"
sci = \"0200000000020001\"
ssci = 1
";

fn parse(text: &str) -> Result<KeyFile, String> {
    KeyFile::parse(Path::new("keys"), text).map_err(|faults| faults.to_string())
}

/// The faults of the file above after one replacement.
fn faults_when(old: &str, new: &str) -> String {
    assert!(XPN.contains(old), "{old}");
    let found = parse(&XPN.replacen(old, new, 1)).expect_err(new);
    assert!(!found.contains("0304") && !found.contains("1314"), "shows a key: {found}");
    found
}

fn counting() -> impl FnMut(&mut [u8]) -> Result<(), std::convert::Infallible> {
    let mut next = 0u8;
    move |out| {
        for byte in out {
            *byte = next;
            next = next.wrapping_add(1);
        }
        Ok(())
    }
}

#[test]
fn key_file_is_read() {
    let keys = parse(XPN).unwrap();
    assert_eq!(keys.suite, CipherSuite::GcmAesXpn128);
    let [first, second] = keys.associations.as_slice() else { panic!("{keys:?}") };
    assert_eq!((first.an.number(), second.an.number()), (0, 1));
    assert_eq!(first.key.as_bytes(), (0..16).collect::<Vec<u8>>());
    assert_eq!(first.key_id.last(), Some(&1));
    assert_eq!(second.salt.map(|salt| salt[11]), Some(0xec));
    let own = Sci([2, 0, 0, 0, 0, 1, 0, 1]);
    assert_eq!(keys.member(own).and_then(|member| member.ssci), Some(2));
    assert_eq!(keys.peers(own).map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(keys.member(Sci([2, 0, 0, 0, 0, 3, 0, 1])).is_none());
}

#[test]
fn key_of_zeros_is_refused() {
    let found = faults_when("101112131415161718191a1b1c1d1e1f", &"0".repeat(32));
    assert!(found.contains("sa[1].key: is all zeros"), "{found}");
}

#[test]
fn debug_output_hides_keys() {
    let keys = parse(XPN).unwrap();
    let shown = format!("{keys:?}");
    assert!(shown.contains("SecretKey(not shown)") && !shown.contains("3, 4, 5"), "{shown}");
}

#[test]
fn generated_keys_read_back() {
    for suite in
        [CipherSuite::GcmAes128, CipherSuite::GcmAes256, CipherSuite::GcmAesXpn128, CipherSuite::GcmAesXpn256]
    {
        let members = vec![
            ("a".to_owned(), Sci([2, 0, 0, 0, 0, 1, 0, 1])),
            ("b".to_owned(), Sci([2, 0, 0, 0, 0, 2, 0, 1])),
        ];
        let Ok(made) = KeyFile::generate(suite, members, counting());
        let read = parse(&made.to_text()).unwrap();
        assert_eq!(read.suite, suite);
        assert_eq!(read.members, made.members);
        for (read, made) in read.associations.iter().zip(&made.associations) {
            assert_eq!((read.an, read.key_id, read.salt), (made.an, made.key_id, made.salt));
            assert_eq!(read.key.as_bytes(), made.key.as_bytes());
        }
        assert_eq!(read.associations.len(), 2);
        // IEEE 802.1X-2020, 10.7.13: the greatest SCI has SSCI 1.
        let ssci: Vec<_> = read.members.iter().map(|member| member.ssci).collect();
        assert_eq!(ssci, if suite.is_xpn() { [Some(2), Some(1)] } else { [None, None] });
    }
}

#[test]
fn faults_of_keys_do_not_show_them() {
    for (old, new, expected) in [
        (
            KEY,
            &KEY[2..],
            "keys:5: sa[0].key: a key for gcm-aes-xpn-128 has 32 hexadecimal digits (16 octets), not 30",
        ),
        (
            KEY,
            "000102030405060708090a0b0c0d0e0g",
            "keys:5: sa[0].key: has other characters than hexadecimal digits",
        ),
        (
            "key = \"000102030405060708090a0b0c0d0e0f\"",
            "key = 0x000102030405",
            "keys:5: sa[0].key: must be a string, not an integer",
        ),
        (
            "salt = \"e0e1e2e3e4e5e6e7e8e9eaeb\"\n",
            "",
            "keys:2: sa[0].salt: is missing, and the XPN suites need it",
        ),
        (
            "e7e8e9eaeb",
            "e7e8e9ea",
            "keys:6: sa[0].salt: the salt has 24 hexadecimal digits (12 octets), not 22",
        ),
        ("an = 1", "an = 0", "keys:7: sa[1]: AN 0 is used twice"),
        ("an = 1", "an = 4", "keys:8: sa[1].an: 4 is out of range"),
        ("101112131415161718191a1b1c1d1e1f", KEY, "keys:7: sa[1]: has the key of another [[sa]]"),
        ("key = \"10", "kye = \"10", "keys:7: sa[1].key: is missing"),
        (
            "gcm-aes-xpn-128",
            "gcm-aes-xpm-128",
            "keys:1: suite: \"gcm-aes-xpm-128\" is not a cipher suite\n    remedy: did you mean \"gcm-aes-xpn-128\"?",
        ),
        ("suite = \"gcm-aes-xpn-128\"", "", "keys: suite: is missing"),
    ] {
        let found = faults_when(old, new);
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn shared_nonces_are_refused() {
    for (old, new, expected) in [
        (
            "0200000000020001",
            "0200000000010001",
            "keys:16: member[1]: \"a\" has the SCI 0200000000010001 too",
        ),
        ("ssci = 1", "ssci = 2", "keys:16: member[1]: \"a\" has the same SSCI"),
        ("name = \"b\"", "name = \"a\"", "keys:16: member[1]: the name \"a\" is used twice"),
        ("ssci = 1", "ssci = 0", "keys:19: member[1].ssci: 0 is out of range"),
        ("ssci = 1\n", "", "keys:16: member[1].ssci: is missing, and the XPN suites need it"),
        ("0200000000020001", "020000000002", "keys:18: member[1].sci: \"020000000002\" is not an SCI"),
        ("name = \"b\"", "name = \"b\\\"\"", "keys:17: member[1].name: is not a name"),
    ] {
        let found = faults_when(old, new);
        assert!(found.starts_with(expected), "{found}");
    }
    let alone = XPN.split("[[member]]\nname = \"b\"").next().unwrap();
    assert!(
        parse(alone).unwrap_err().starts_with("keys:12: member[0]: is the only member, so there is no peer")
    );
}

#[test]
fn xpn_settings_need_xpn_suite() {
    let found = parse(&XPN.replace("gcm-aes-xpn-128", "gcm-aes-128")).unwrap_err();
    assert_eq!(found.matches("belongs to the XPN suites").count(), 4, "{found}");
}

#[test]
fn empty_key_file_gets_full_remedies() {
    let found = parse("suite = \"gcm-aes-128\"\nsa = 1\n").unwrap_err();
    assert_eq!(
        found,
        "keys: member: is missing\n    remedy: add [[member]] with name and sci for each gateway\n\
         keys:2: sa: must be a list\n    remedy: write [[sa]] with two brackets"
    );
}

/// A key file in a directory of its own.
struct Stored(tempfile::TempDir);

impl Stored {
    fn new(mode: u32) -> Self {
        let stored = Self(tempfile::tempdir().unwrap());
        fs::write(stored.path(), XPN).unwrap();
        fs::set_permissions(stored.path(), Permissions::from_mode(mode)).unwrap();
        stored
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("keys")
    }

    fn owner(&self) -> u32 {
        fs::metadata(self.path()).unwrap().uid()
    }

    fn load(&self, user: u32) -> Result<KeyFile, String> {
        let base = format!("{}/", self.0.path().display());
        KeyFile::load(&self.path(), user).map_err(|faults| faults.to_string().replace(&base, ""))
    }
}

#[test]
fn readable_key_file_is_refused() {
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666] {
        let stored = Stored::new(mode);
        assert_eq!(
            stored.load(stored.owner()).unwrap_err(),
            format!(
                "keys: others than its owner have rights on this key file (mode {mode:04o})\n    \
                 remedy: chmod 600 keys; if others may have read it, make new keys"
            )
        );
    }
    for mode in [0o600, 0o400] {
        let stored = Stored::new(mode);
        assert!(stored.load(stored.owner()).is_ok());
    }
}

#[test]
fn foreign_key_file_is_refused() {
    let stored = Stored::new(0o600);
    let owner = stored.owner();
    let other = owner + 1;
    let loaded = stored.load(other);
    if owner == 0 {
        assert!(loaded.is_ok(), "root may put keys anywhere");
        std::os::unix::fs::chown(stored.path(), Some(12345), None).unwrap();
        assert_eq!(
            stored.load(0).unwrap_err(),
            "keys: this key file belongs to user 12345, and this runs as user 0\n    \
             remedy: chown 0 keys, or run this as its owner"
        );
    } else {
        assert!(
            loaded.unwrap_err().contains(&format!("belongs to user {owner}, and this runs as user {other}"))
        );
    }
}

#[test]
fn other_files_are_refused() {
    let stored = Stored::new(0o600);
    fs::write(stored.path(), [0xff; 100]).unwrap();
    assert!(stored.load(stored.owner()).unwrap_err().starts_with("keys: is not text"));
    fs::write(stored.path(), vec![b'#'; MAX_KEY_FILE_LEN + 1]).unwrap();
    assert!(stored.load(stored.owner()).unwrap_err().starts_with("keys: longer than 64 KiB"));
    fs::remove_file(stored.path()).unwrap();
    assert!(
        stored.load(0).unwrap_err().starts_with("keys: cannot read the key file: no such file or directory")
    );
    fs::create_dir(stored.path()).unwrap();
    assert!(stored.load(0).unwrap_err().starts_with("keys: is not a regular file"));
}

#[test]
fn key_file_is_private_and_kept() {
    let stored = Stored::new(0o600);
    let keys = parse(XPN).unwrap();
    let found = keys.write_new(&stored.path()).unwrap_err().to_string();
    assert!(found.contains("exists already, and keys are not overwritten"), "{found}");
    let new = stored.0.path().join("new");
    keys.write_new(&new).unwrap();
    assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o600);
    assert!(KeyFile::load(&new, stored.owner()).is_ok());
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn edited_key_file_never_panics_or_leaks(at in 0..XPN.len(), with in "\\PC{0,4}", cut in 0usize..6) {
            let mut text = XPN.to_owned();
            text.replace_range(at..(at + cut).min(text.len()), &with);
            if let Err(found) = parse(&text) {
                prop_assert!(!found.contains("05060708090a") && !found.contains("151617181a1b"));
            }
        }
    }
}
