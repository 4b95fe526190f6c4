//! The keys of a group: one, or several that follow each other.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use antedate_channel::goose::{KeyPeriod, MAX_KEYS};
use antedate_goose::clock;
use antedate_host::clock::Moment;
use antedate_host::fault::Fault;
use serde_json::Value as Json;

use super::keeping::{Algorithm, Secret};
use super::timely::Cause;

/// The pause between two looks at the file.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);
/// The number of a single key.
const NUMBER: u32 = 1;
/// Remedy for a line.
const REMEDY: &str = "write a key alone (32 hexadecimal digits, or 64 and hmac-sha256-128 behind them), or for each key a line \
                      NUMBER BEGIN KEY, as 2 2026-12-01T00:00:00Z 000102030405060708090a0b0c0d0e0f";

/// A key with its number and the begin of its use, in seconds since 1970.
pub(super) struct Dated {
    pub(super) number: u32,
    pub(super) begin: u64,
    pub(super) secret: Secret,
}

impl Dated {
    /// The begin in words.
    pub(super) fn said(&self) -> String {
        clock::show(clock::octets(self.begin, 0, 0))["time"].as_str().unwrap_or_default().to_owned()
    }
}

/// A file, by which a new one is told.
type Stamp = Option<(u64, u64, i64, i64)>;

/// A file of keys, the earliest first.
pub(super) struct Keys {
    file: PathBuf,
    keys: Vec<Dated>,
    /// Several keys, or one with a number and a begin.
    is_group: bool,
    /// Messages are encrypted, which keys of HMAC cannot do.
    is_encrypted: bool,
    stamp: Stamp,
    looked: Moment,
    faulty: Cause,
}

/// Seconds since 1970.
pub(super) fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Keys {
    /// Reads a file that only its owner may read. `number` is that of a single key.
    pub(super) fn load(file: &Path, number: Option<u32>, is_encrypted: bool) -> Result<Self, Fault> {
        let stamp = stamp(file);
        let text = Secret::text(file)?;
        let text = text.as_str();
        // A number is shorter than a key.
        let first = text.split_whitespace().next().unwrap_or_default();
        let is_group =
            first.starts_with('#') || (first.len() < 32 && text.split_whitespace().nth(1).is_some());
        if is_group && number.is_some() {
            let what = "has the numbers of its keys, and --key-number is given";
            return Err(Fault::of_file(file, what, "leave --key-number away"));
        }
        let keys = match is_group {
            true => group(file, text)?,
            false => {
                let mut words = text.split_whitespace();
                let secret = Secret::parse(&mut words).filter(|_| words.next().is_none());
                let secret = secret.ok_or_else(|| Fault::of_file(file, "is no key", REMEDY))?;
                vec![Dated { number: number.unwrap_or(NUMBER), begin: 0, secret }]
            }
        };
        if is_encrypted && keys.iter().any(|key| key.secret.algorithm() == Algorithm::Hmac) {
            let what = "has a key of hmac-sha256-128, which does not encrypt";
            let remedy = "give keys of AES (32 hexadecimal digits), or leave --encrypt away; routed messages are encrypted";
            return Err(Fault::of_file(file, what, remedy));
        }
        let (looked, faulty) = (Moment::now(), Cause::default());
        Ok(Self { file: file.to_owned(), keys, is_group, is_encrypted, stamp, looked, faulty })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// All keys, the earliest first.
    pub(super) fn all(&self) -> &[Dated] {
        &self.keys
    }

    /// Files to read again.
    pub(super) fn reads(&self) -> Vec<PathBuf> {
        if self.is_group { vec![self.file.clone()] } else { Vec::new() }
    }

    /// The key that is in use now.
    pub(super) fn current(&self, now: u64) -> Result<&Dated, Fault> {
        self.keys.iter().rev().find(|key| key.begin <= now).ok_or_else(|| {
            let begin = self.keys.first().map(Dated::said).unwrap_or_default();
            let what = format!("has no key for now: the first begins at {begin}");
            Fault::of_file(&self.file, what, "give a key that is in use, and look at the clock")
        })
    }

    /// The key with its times, as messages tell them.
    pub(super) fn period(&self, key: &Dated, now: u64) -> KeyPeriod {
        let next = self.keys.iter().find(|later| later.begin > key.begin);
        let minutes = next.map_or(u64::MAX, |next| next.begin.saturating_sub(now) / 60);
        // A single key has no begin: its use begins with the publisher.
        let since = if self.is_group { key.begin } else { now };
        KeyPeriod {
            key: key.number,
            since: u32::try_from(since).unwrap_or(u32::MAX),
            minutes_left: u16::try_from(minutes).unwrap_or(u16::MAX),
        }
    }

    /// The keys that a subscriber accepts: those in use within `overlap` seconds before and after now.
    pub(super) fn accepted(&self, now: u64, overlap: u64) -> impl Iterator<Item = &Dated> {
        let ends = self.keys.iter().skip(1).map(|next| next.begin).chain([u64::MAX]);
        self.keys.iter().zip(ends).filter_map(move |(key, end)| {
            let is_used = key.begin <= now.saturating_add(overlap) && now <= end.saturating_add(overlap);
            is_used.then_some(key)
        })
    }

    /// Looks once a second whether a group's file was changed, and reads it again. Keys whose numbers
    /// are known stay; a faulty file changes nothing, and is warned of.
    pub(super) fn look(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Moment::now();
        let stamp = stamp(&self.file);
        if self.is_group && stamp != self.stamp {
            match Self::load(&self.file, None, self.is_encrypted).and_then(|new| self.follow(new)) {
                Ok(()) => self.stamp = stamp,
                // The file may be under way.
                Err(fault) => self.faulty.warn(format_args!("the keys of before stay: {fault}")),
            }
        }
        true
    }

    /// Takes the keys of a changed file.
    fn follow(&mut self, new: Self) -> Result<(), Fault> {
        let refuse = |what: String, remedy: &str| Err(Fault::of_file(&self.file, what, remedy));
        if !new.is_group {
            return refuse("is no longer a list of keys".into(), REMEDY);
        }
        let last = self.keys.last().map_or(0, |key| key.number);
        for key in &new.keys {
            match self.keys.iter().find(|known| known.number == key.number) {
                Some(known)
                    if known.secret.as_bytes() != key.secret.as_bytes()
                        || known.secret.algorithm() != key.secret.algorithm() =>
                {
                    let what = format!("has another key under the number {}", key.number);
                    return refuse(what, "give each key a number of its own");
                }
                None if key.number < last => {
                    let what = format!("has a new key {} before the key {last}", key.number);
                    return refuse(what, "add keys at the end, with higher numbers");
                }
                _ => {}
            }
        }
        self.keys = new.keys;
        Ok(())
    }
}

fn stamp(file: &Path) -> Stamp {
    let about = fs::metadata(file).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

/// The keys of a group's file.
fn group(file: &Path, text: &str) -> Result<Vec<Dated>, Fault> {
    let mut keys: Vec<Dated> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault =
            |what: &str, remedy: &str| Fault { line: Some(at + 1), ..Fault::of_file(file, what, remedy) };
        let mut words = line.split_whitespace();
        let (number, begin) = (words.next(), words.next());
        let number: u32 = number
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| fault("is no key with a number and a begin", REMEDY))?;
        let begin = begin.and_then(|word| clock::read(&Json::String(word.to_owned())));
        let begin = begin.ok_or_else(|| fault("has no begin as in RFC 3339, from 1970 to 2106", REMEDY))?;
        let begin = u64::from_be_bytes(begin) >> 32;
        let secret = Secret::parse(&mut words).filter(|_| words.next().is_none());
        let secret =
            secret.ok_or_else(|| fault("has no key behind its begin, or another algorithm", REMEDY))?;
        if keys.last().is_some_and(|last| last.number >= number || last.begin >= begin) {
            return Err(fault("is not after the key before", "let numbers and begins rise"));
        }
        if keys.iter().any(|known| known.secret.as_bytes() == secret.as_bytes()) {
            return Err(fault(
                "has the key of another line",
                "make a new key for each line: openssl rand -hex 16",
            ));
        }
        if keys.len() == MAX_KEYS {
            return Err(fault("is one key too many", "remove keys whose time is over; eight are taken"));
        }
        keys.push(Dated { number, begin, secret });
    }
    if keys.is_empty() {
        return Err(Fault::of_file(file, "has no key", REMEDY));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const A: &str = "000102030405060708090a0b0c0d0e0f";
    const B: &str = "100102030405060708090a0b0c0d0e0f";
    const C: &str = "200102030405060708090a0b0c0d0e0f";

    fn write(file: &Path, text: &str) {
        let new = file.with_extension("new");
        fs::write(&new, text).expect("written");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("set");
        fs::rename(new, file).expect("renamed");
    }

    fn load(text: &str, number: Option<u32>) -> Result<Keys, Fault> {
        let desk = tempfile::tempdir().expect("a directory");
        let file = desk.path().join("key");
        write(&file, text);
        Keys::load(&file, number, false)
    }

    fn keys(text: &str, number: Option<u32>) -> Keys {
        load(text, number).map_err(|fault| fault.to_string()).expect("keys")
    }

    fn refused(text: &str, number: Option<u32>) -> String {
        load(text, number).err().map(|fault| fault.to_string()).unwrap_or_default()
    }

    fn numbers<'a>(keys: impl Iterator<Item = &'a Dated>) -> Vec<u32> {
        keys.map(|key| key.number).collect()
    }

    #[test]
    fn keys_follow_each_other() {
        let text = format!("# bay 7\n1 1970-01-01T00:01:40Z {A}\n\n5 1970-01-01T00:03:20Z {B}\n");
        let keys = keys(&text, None);
        assert!(keys.current(99).is_err());
        let current = |now| keys.current(now).map(|key| key.number).expect("a key");
        assert_eq!([current(100), current(199), current(200)], [1, 1, 5]);
        let accepted = |now| numbers(keys.accepted(now, 10));
        assert_eq!(
            [accepted(89), accepted(90), accepted(189), accepted(190)],
            [vec![], vec![1], vec![1], vec![1, 5]]
        );
        assert_eq!([accepted(210), accepted(211)], [vec![1, 5], vec![5]]);
        let period = |at: usize| keys.period(&keys.all()[at], 130);
        assert_eq!(period(0), KeyPeriod { key: 1, since: 100, minutes_left: 1 });
        assert_eq!(period(1), KeyPeriod { key: 5, since: 200, minutes_left: u16::MAX });
    }

    #[test]
    fn single_key_has_a_given_number() {
        assert_eq!(numbers(keys(A, None).accepted(0, 0)), [1]);
        assert_eq!(numbers(keys(A, Some(7)).accepted(u64::MAX, 0)), [7]);
    }

    #[test]
    fn algorithm_stands_behind_its_key() {
        let of =
            |text: &str| keys(text, None).all().iter().map(|key| key.secret.algorithm()).collect::<Vec<_>>();
        assert_eq!(of(&format!("{A}{B} hmac-sha256-128\n")), [Algorithm::Hmac]);
        assert_eq!(of(&format!("{A} aes-gmac-128")), [Algorithm::Gmac]);
        let encrypted = |text: &str| {
            let desk = tempfile::tempdir().expect("a directory");
            let file = desk.path().join("key");
            write(&file, text);
            Keys::load(&file, None, true).err().map(|fault| fault.to_string()).unwrap_or_default()
        };
        assert!(encrypted(&format!("{A}{B} hmac-sha256-128")).contains("does not encrypt"));
        assert_eq!(encrypted(A), "");
        let (one, two) = ("2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z");
        let group = format!("1 {one} {A}\n2 {two} {B}{C} hmac-sha256-128");
        assert_eq!(of(&group), [Algorithm::Gmac, Algorithm::Hmac]);
        assert_eq!(numbers(keys(&format!("{A}{B} hmac-sha256-128"), Some(7)).accepted(0, 0)), [7]);
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let time = "2026-12-01T00:00:00Z";
        let next = "2026-12-02T00:00:00Z";
        for (text, number, says) in [
            (format!("1 {time} {A}"), Some(1), "--key-number"),
            (format!("1 {time} {A}\n1 {next} {B}"), None, ":2: is not after"),
            (format!("1 {next} {A}\n2 {time} {B}"), None, ":2: is not after"),
            (format!("1 {time} {A}\n2 {next} {A}"), None, ":2: has the key of another"),
            (format!("1 tomorrow {A}"), None, ":1: has no begin"),
            (format!("1 {time} {A} now"), None, ":1: has no key behind"),
            (format!("1 {time} {A} hmac-sha256-128"), None, ":1: has no key behind"),
            (format!("1 {time} {A}{B} aes-gmac-128"), None, ":1: has no key behind"),
            (format!("1 {time} {A} aes-gmac-128 now"), None, ":1: has no key behind"),
            (format!("1 {time} 00"), None, ":1: has no key behind"),
            ("# none".into(), None, "has no key"),
            ("00".into(), None, "is no key"),
            (format!("{A}{B}"), None, "is no key"),
            (format!("{A} md5"), None, "is no key"),
        ] {
            let refused = refused(&text, number);
            assert!(refused.contains(says), "{text}: {refused}");
        }
        let many: String = (1..=9).map(|n| format!("{n} 2026-12-0{n}T00:00:00Z {n}{}\n", &A[1..])).collect();
        let refused = refused(&many, None);
        assert!(refused.contains(":9: is one key too many"), "{refused}");
    }

    #[test]
    fn changed_file_is_followed() {
        let desk = tempfile::tempdir().expect("a directory");
        let file = desk.path().join("key");
        let (one, two) = (format!("1 2026-01-01T00:00:00Z {A}\n"), format!("3 2026-02-01T00:00:00Z {B}\n"));
        write(&file, &one);
        let mut keys = Keys::load(&file, None, false).map_err(|fault| fault.to_string()).expect("a key");
        let mut look = |text: &str| {
            write(&file, text);
            keys.looked = Moment::now() - LOOK;
            assert!(keys.look());
            numbers(keys.all().iter())
        };
        assert_eq!(look(&format!("{one}{two}")), [1, 3]);
        // Faulty files change nothing.
        assert_eq!(look("1"), [1, 3]);
        assert_eq!(look(&format!("1 2026-01-01T00:00:00Z {C}\n")), [1, 3]);
        assert_eq!(look(&format!("2 2026-01-15T00:00:00Z {C}\n{two}")), [1, 3]);
        assert_eq!(look(A), [1, 3]);
        assert_eq!(look(&two), [3]);
    }
}
