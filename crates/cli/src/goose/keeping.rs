//! State of GOOSE publishers: their keys and reserved numbers, by the rules of the gateway's files.

pub(super) mod heard;
pub(super) mod mark;

use std::path::Path;

use antedate_channel::goose::{END, HMAC_KEY_LEN};
use antedate_host::fault::Fault;
use antedate_host::hex::parse_hex;
use antedate_host::numbers::{
    KeyId, KeyLock, NumberFile, NumbersError, NumbersErrorKind, Place, Reservation, permit_volatile,
};
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use antedate_host::process;
use antedate_wire::EthernetAddress;
use zeroize::Zeroizing;

use crate::output;

/// Octets of a key of AES.
const KEY_LEN: usize = 16;
/// Remedy for a missing key: `antedate keygen` has no GOOSE keys.
const REMEDY: &str = "make one: (umask 077; openssl rand -hex 16 > FILE)";
/// Numbers per reservation.
const AHEAD: u64 = 1 << 16;

/// What a single key's file must have.
pub(super) const FORM: &str = "write 32 hexadecimal digits, or 64 and hmac-sha256-128 behind them";

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// AES-GMAC, and AES-GCM to encrypt as well
    Gmac,
    /// HMAC-SHA256-128
    Hmac,
}

impl Algorithm {
    /// The algorithm of a word in a key file.
    fn of(word: &str) -> Option<Self> {
        match word {
            "aes-gmac-128" => Some(Self::Gmac),
            "hmac-sha256-128" => Some(Self::Hmac),
            _ => None,
        }
    }

    const fn key_len(self) -> usize {
        match self {
            Self::Gmac => KEY_LEN,
            Self::Hmac => HMAC_KEY_LEN,
        }
    }
}

/// The key of a file.
pub(crate) struct Secret(Zeroizing<Vec<u8>>, Algorithm);

impl Secret {
    /// Reads a file with one key, which only its owner may read.
    pub(crate) fn load(file: &Path) -> Result<Self, Fault> {
        let text = Self::text(file)?;
        let mut words = text.split_whitespace();
        Self::parse(&mut words)
            .filter(|_| words.next().is_none())
            .ok_or_else(|| Fault::of_file(file, "is no key", FORM))
    }

    /// The text of a file that only its owner may read.
    pub(super) fn text(file: &Path) -> Result<Zeroizing<String>, Fault> {
        if !file.exists() {
            return Err(Fault::of_file(file, "there is no such key file", REMEDY));
        }
        let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
        let len = private_file::read(file, process::user(), &mut text)?;
        let text = text.get(..len).and_then(|octets| std::str::from_utf8(octets).ok()).unwrap_or_default();
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// A key of hexadecimal digits, and its algorithm behind it: AES-GMAC unless given.
    pub(super) fn parse<'w>(words: &mut impl Iterator<Item = &'w str>) -> Option<Self> {
        let digits = words.next()?;
        let algorithm = words.next().map_or(Some(Algorithm::Gmac), Algorithm::of)?;
        let mut key = Zeroizing::new(vec![0; algorithm.key_len()]);
        let fits = digits.len() == 2 * key.len() && parse_hex(digits, &mut key);
        fits.then_some(Self(key, algorithm))
    }

    pub(super) const fn algorithm(&self) -> Algorithm {
        self.1
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[cfg(test)]
    fn of(octets: &[u8; KEY_LEN]) -> Self {
        Self(Zeroizing::new(octets.to_vec()), Algorithm::Gmac)
    }

    /// A publisher with the key in state files.
    fn publisher(&self) -> KeyId {
        KeyId::new("antedate GOOSE publisher", &self.0)
    }

    /// The key in state files.
    fn id(&self) -> KeyId {
        KeyId::new("antedate GOOSE key", &self.0)
    }
}

/// The operator's word about a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is none, and the key was never used.
    New,
    /// It is where it was.
    Last,
    /// It was moved here, is the last one, and no copy of it was used since.
    Moved,
}

/// A publisher's numbers, reserved on disk before use.
pub(super) struct Numbers {
    file: NumberFile,
    numbers: Reservation,
    _alone: KeyLock,
}

/// A publisher's address in state files.
const fn place(sender: [u8; 6]) -> Place {
    let [a, b, c, d, e, f] = sender;
    Place([a, b, c, d, e, f, 0, 0])
}

/// The file of a state.
fn opened(directory: &Path, state: State, volatile: bool) -> Result<NumberFile, NumbersError> {
    if volatile {
        permit_volatile(directory)?;
    }
    let file = match state {
        State::New => NumberFile::create(directory),
        State::Last => NumberFile::open(directory),
        State::Moved => NumberFile::settle(directory),
    }?;
    if file.is_homeless() && state == State::Last {
        output::tell(format_args!(
            "{}: made by an earlier version; copies of it are told from now on",
            directory.display()
        ));
    }
    if file.is_volatile() {
        output::tell(format_args!("{}: {}", directory.display(), antedate_host::numbers::VOLATILE));
    }
    Ok(file)
}

impl Numbers {
    /// Opens the numbers of a key and an address. The two are the nonce but for the number, so a state
    /// belongs to both, and `--first` needs a key that this address never used. A key of a group, of
    /// which the state knows another one, begins without it.
    pub(super) fn open(
        directory: &Path,
        (key_file, secret): (&Path, &Secret),
        group: &[&Secret],
        sender: [u8; 6],
        state: State,
        volatile: bool,
    ) -> Result<Self, Fault> {
        let (key, place) = (secret.id(), place(sender));
        let publisher = secret.publisher();
        let mark = mark::Mark::read(key_file, &key, sender)?;
        if state == State::New {
            mark.must_be_new()?;
        }
        let open = || {
            let alone = KeyLock::take(&key, place)?;
            let mut file = opened(directory, state, volatile)?;
            let known: Vec<Place> = file
                .bounds()
                .filter(|(of, ..)| *of == publisher.digest())
                .map(|(_, place, _)| place)
                .collect();
            if known.is_empty() {
                file.raise(&[(publisher, place, 2)])?;
            }
            let numbers = Reservation::open(&file, key, END)?;
            if numbers.is_exhausted() {
                return Err(NumbersError::new(file.path(), NumbersErrorKind::Exhausted));
            }
            Ok((Self { file, numbers, _alone: alone }, known))
        };
        let (mut this, known) = open().map_err(|error| fault(directory, error))?;
        if let Some(other) = known.iter().find(|known| **known != place) {
            let address = |octets: &[u8]| {
                octets.first_chunk().map_or(String::new(), |six| EthernetAddress(*six).to_string())
            };
            return Err(Fault::of_file(
                directory,
                format!(
                    "has the numbers of {}, and this interface is {}",
                    address(&other.0),
                    address(&sender)
                ),
                "publish from the interface with that address, or give --first and a directory that is not there",
            ));
        }
        let of_group = || group.iter().any(|other| this.file.bound(&other.publisher(), place) > 1);
        if this.first() == 1 && state == State::Last && of_group() {
            mark.must_be_new()?;
        } else if this.first() == 1 && state != State::New {
            return Err(Fault::of_file(
                directory,
                "does not know this key",
                "with a key that was never used give --first and a directory that is not there; with any other make a new key, for its \
                 numbers would repeat",
            ));
        }
        mark.write()?;
        this.numbers.extend(&mut this.file, AHEAD).map_err(|error| fault(directory, error))?;
        Ok(this)
    }

    /// Changes to a later key of the group, of which `left` numbers of the last one are unused. After a
    /// fault the last key stays in use. The mark is written first: a key that was marked and has no
    /// numbers is lost, one that has numbers and no mark could be used twice.
    pub(super) fn change(
        &mut self,
        directory: &Path,
        (key_file, secret): (&Path, &Secret),
        sender: [u8; 6],
        left: u64,
    ) -> Result<(), Fault> {
        let (key, place, publisher) = (secret.id(), place(sender), secret.publisher());
        let mark = mark::Mark::read(key_file, &key, sender)?;
        let failed = |error| fault(directory, error);
        let alone = KeyLock::take(&key, place).map_err(failed)?;
        let mut numbers = Reservation::open(&self.file, key, END).map_err(failed)?;
        // The state knows no number of it.
        if numbers.next() == 1 {
            mark.must_be_new()?;
        }
        if self.file.bound(&publisher, place) <= 1 {
            self.file.raise(&[(publisher, place, 2)]).map_err(failed)?;
        }
        if numbers.is_exhausted() {
            return Err(failed(NumbersError::new(self.file.path(), NumbersErrorKind::Exhausted)));
        }
        mark.write()?;
        numbers.extend(&mut self.file, AHEAD).map_err(failed)?;
        self.numbers.spend_below(self.limit().saturating_sub(left));
        (self.numbers, self._alone) = (numbers, alone);
        Ok(())
    }

    /// The first unused number.
    pub(super) const fn first(&self) -> u64 {
        self.numbers.next()
    }

    /// The first number beyond the reservation.
    pub(super) const fn limit(&self) -> u64 {
        self.numbers.limit()
    }

    /// Extends the reservation if at most half of it is left. Returns whether it did.
    pub(super) fn top_up(&mut self, left: u64, directory: &Path) -> Result<bool, Fault> {
        self.numbers.spend_below(self.limit().saturating_sub(left));
        let raised = self.numbers.refill(&mut self.file, AHEAD);
        raised.map(|limit| limit.is_some()).map_err(|error| fault(directory, error))
    }

    /// Closes with `left` numbers unused: writes the exact next number, so none is lost.
    pub(super) fn close(mut self, left: u64, directory: &Path) -> Result<(), Fault> {
        self.numbers.spend_below(self.limit().saturating_sub(left));
        let exact = [(self.numbers.key(), self.numbers.next())];
        self.file.close(&exact, &[]).map_err(|error| fault(directory, error))
    }
}

fn fault(directory: &Path, error: NumbersError) -> Fault {
    let shown = directory.display();
    error.into_fault(|kind| match kind {
        NumbersErrorKind::NoDirectory | NumbersErrorKind::Missing => {
            "with a key that was never used give --first; with any other make a new key, for its numbers would repeat".into()
        }
        NumbersErrorKind::InUse => "give each publisher a key and a state directory of its own".into(),
        NumbersErrorKind::KeyInUse => "give each publisher of an interface a key of its own".into(),
        NumbersErrorKind::Exists => format!(
            "leave --first away to go on where it stopped; for a key that was never used name another directory than {shown}"
        ),
        NumbersErrorKind::Copied | NumbersErrorKind::OtherMachine => format!(
            "make a new key, remove {shown}, and give --first; only if this is the last state and no copy of it was used since, give \
             --state-moved once"
        ),
        _ => format!("make a new key, remove {shown}, and give --first"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const SENDER: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];

    /// The numbers of a key, whose file is beside the state.
    fn open(directory: &Path, key: &Secret, state: State) -> Result<Numbers, Fault> {
        of(directory, key, SENDER, state)
    }

    fn of(directory: &Path, key: &Secret, sender: [u8; 6], state: State) -> Result<Numbers, Fault> {
        let file = directory.with_file_name("key");
        Numbers::open(directory, (&file, key), &[], sender, state, false)
    }

    fn secret(directory: &Path, digits: &str) -> Secret {
        let file = directory.join(format!("key-{}", &digits[..2]));
        fs::write(&file, digits).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        Secret::load(&file).map_err(|fault| fault.to_string()).expect("a key")
    }

    #[test]
    fn reserved_numbers_are_never_repeated() {
        let desk = tempfile::tempdir().expect("a directory");
        let key = secret(desk.path(), "000102030405060708090a0b0c0d0e0f\n");
        let state = desk.path().join("state");
        let refused = |result: Result<Numbers, Fault>| result.err().map(|fault| fault.to_string());
        let lost = refused(open(&state, &key, State::Last)).expect("a lost state is no new key");
        assert!(lost.contains("--first"), "{lost}");
        let numbers = open(&state, &key, State::New).map_err(|fault| fault.to_string()).expect("new");
        assert_eq!((numbers.first(), numbers.limit()), (1, 65_537));
        assert!(refused(open(&state, &key, State::Last)).is_some(), "another publisher has it");
        // A crash: the rest of the reservation is never used.
        drop(numbers);
        let numbers = open(&state, &key, State::Last).map_err(|fault| fault.to_string()).expect("again");
        assert_eq!(numbers.first(), 65_537);
        // A clean end after three of them loses none.
        let numbers_left = numbers.limit() - 65_540;
        numbers.close(numbers_left, &state).map_err(|fault| fault.to_string()).expect("closed");
        let numbers = open(&state, &key, State::Last).map_err(|fault| fault.to_string()).expect("again");
        assert_eq!(numbers.first(), 65_540);
        drop(numbers);
        assert!(refused(open(&state, &key, State::New)).is_some(), "--first makes no second beginning");
        let other = secret(desk.path(), "ff0102030405060708090a0b0c0d0e0f");
        assert!(refused(open(&state, &other, State::Last)).is_some(), "a key that is not known");
    }

    #[test]
    fn state_belongs_to_an_address() {
        let desk = tempfile::tempdir().expect("a directory");
        let key = secret(desk.path(), "300102030405060708090a0b0c0d0e0f");
        let (state, second) = (desk.path().join("state"), desk.path().join("second"));
        let done = |numbers: Numbers| {
            let left = numbers.limit() - numbers.first();
            numbers.close(left, &state).map_err(|fault| fault.to_string()).expect("closed");
        };
        let say =
            |result: Result<Numbers, Fault>| result.err().map(|fault| fault.to_string()).unwrap_or_default();
        done(open(&state, &key, State::New).map_err(|fault| fault.to_string()).expect("new"));
        let other = [2, 0, 0x5e, 0, 0, 2];
        let refused = say(of(&state, &key, other, State::Last));
        assert!(refused.contains("02:00:5e:00:00:01, and this interface is 02:00:5e:00:00:02"), "{refused}");
        // The same key is new for another address, and no longer for this one, wherever the state is.
        done(
            of(&second, &key, other, State::New).map_err(|fault| fault.to_string()).expect("another address"),
        );
        let again = say(open(&desk.path().join("third"), &key, State::New));
        assert!(
            again.contains("key.publishers") && again.contains("published with this key before"),
            "{again}"
        );
        // A new key in the same file.
        let new = secret(desk.path(), "100102030405060708090a0b0c0d0e0f");
        done(
            open(&desk.path().join("fourth"), &new, State::New)
                .map_err(|fault| fault.to_string())
                .expect("new"),
        );
        fs::write(desk.path().join("key.publishers"), "who?\n").expect("written");
        let damaged = say(open(&state, &key, State::Last));
        assert!(damaged.contains("key.publishers:1: is no mark"), "{damaged}");
    }

    #[test]
    fn key_of_a_group_follows() {
        let desk = tempfile::tempdir().expect("a directory");
        let keys = ["50", "51", "52", "53"].map(|begin| format!("{begin}0102030405060708090a0b0c0d0e0f"));
        let [one, two, three, four] = keys.map(|digits| secret(desk.path(), &digits));
        let (state, file) = (desk.path().join("state"), desk.path().join("key"));
        let open = |key: &Secret, group: &[&Secret], word| {
            Numbers::open(&state, (&file, key), group, SENDER, word, false).map_err(|fault| fault.to_string())
        };
        let mut numbers = open(&one, &[&two], State::New).expect("new");
        let left = numbers.limit() - 5;
        let change = |numbers: &mut Numbers, key: &Secret, left| {
            numbers.change(&state, (&file, key), SENDER, left).map_err(|fault| fault.to_string())
        };
        change(&mut numbers, &two, left).expect("the next key");
        assert_eq!((numbers.first(), numbers.limit()), (1, 65_537));
        drop(numbers);
        // After a restart the second one goes on, and the third begins without --first.
        let numbers = open(&two, &[&one, &three], State::Last).expect("again");
        assert_eq!(numbers.first(), 65_537);
        drop(numbers);
        let numbers = open(&three, &[&two], State::Last).expect("the third");
        assert_eq!(numbers.first(), 1);
        drop(numbers);
        // A key that is in use elsewhere does not begin anew, nor one of no group.
        let elsewhere = desk.path().join("elsewhere");
        drop(
            Numbers::open(&elsewhere, (&file, &four), &[], SENDER, State::New, false)
                .map_err(|fault| fault.to_string()),
        );
        let refused = open(&four, &[&three], State::Last).err().unwrap_or_default();
        assert!(refused.contains("published with this key before"), "{refused}");
        let mut numbers = open(&three, &[&two], State::Last).expect("the third");
        let first = numbers.first();
        assert!(
            change(&mut numbers, &four, 0).is_err_and(|why| why.contains("published with this key before"))
        );
        assert_eq!(numbers.first(), first, "a fault changes nothing");
        let alien = secret(desk.path(), "540102030405060708090a0b0c0d0e0f");
        drop(numbers);
        assert!(open(&alien, &[], State::Last).is_err_and(|why| why.contains("does not know this key")));
    }

    /// `vectors/numbers/README.md`
    #[test]
    fn earlier_file_is_read_and_written_back() {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/numbers/goose");
        let directory = tempfile::tempdir().expect("a directory");
        let digits = fs::read_to_string(vectors.join("key")).expect("a key");
        let key = secret(directory.path(), &digits);
        let state = directory.path().join("state");
        fs::create_dir(&state).expect("a directory");
        let file = state.join("packet-numbers");
        fs::copy(vectors.join("packet-numbers"), &file).expect("copied");
        let golden = fs::read(&file).expect("read");
        let numbers = open(&state, &key, State::Last).map_err(|fault| fault.to_string()).expect("opened");
        assert_eq!((numbers.first(), numbers.limit()), (11, 65_547));
        assert_ne!(fs::read(&file).expect("read"), golden, "the reservation is on the disk");
        let left = numbers.limit() - numbers.first();
        numbers.close(left, &state).map_err(|fault| fault.to_string()).expect("closed");
        let records = |octets: &[u8]| {
            let text = String::from_utf8_lossy(octets).into_owned();
            let lines =
                text.lines().filter(|line| line.starts_with("transmit") || line.starts_with("receive"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let written = fs::read(&file).expect("read");
        assert!(written.starts_with(b"antedate packet numbers 2\nhome "));
        let (sent, publishers): (Vec<_>, Vec<_>) =
            records(&written).into_iter().partition(|line| line.starts_with("transmit"));
        assert_eq!(sent, records(&golden));
        // Since then the state belongs to the address.
        assert!(publishers.len() == 1 && publishers[0].contains("02005e0000010000"), "{publishers:?}");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let desk = tempfile::tempdir().expect("a directory");
        let file = desk.path().join("key");
        let none = Secret::load(&file).err().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(none.contains("no such key file") && none.contains("openssl"), "{none}");
        for (text, mode, says) in [
            ("000102030405060708090a0b0c0d0e0", 0o600, "32 hexadecimal"),
            ("x00102030405060708090a0b0c0d0e0f", 0o600, "32 hexadecimal"),
            ("000102030405060708090a0b0c0d0e0f", 0o640, "rights"),
        ] {
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
            let fault = Secret::load(&file).err().map(|fault| fault.to_string()).unwrap_or_default();
            assert!(fault.contains(says), "{fault}");
        }
    }
}
