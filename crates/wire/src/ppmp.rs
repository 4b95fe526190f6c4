//! PPMP, the production performance management protocol of Eclipse Unide, version 3: measurement
//! and machine messages.
//!
//! A message is JSON. The encoder writes it with *holes of fixed width*: a time always has 24
//! characters (`2026-11-21T09:30:10.123Z`), a number is right-aligned with spaces, which JSON
//! permits, and a late text has its declared number of characters. So the messages of a device
//! share one layout, and most bytes are known before the sensor's reading.
//!
//! [`Message::parse`] reads any message of the two kinds strictly: the specification's required
//! fields must be present in valid JSON.

use crate::json::{Kind as Json, Reader, Token};
use crate::template::{Hole, What, Writer};
use crate::{Error, Result};

/// The `content-spec` of a measurement message.
pub const MEASUREMENT: &[u8] = b"urn:spec://eclipse.org/unide/measurement-message#v3";
/// The `content-spec` of a machine message.
pub const MACHINE: &[u8] = b"urn:spec://eclipse.org/unide/machine-message#v3";

/// Characters of a time: `2026-11-21T09:30:10.123Z`.
pub const TIME_LEN: usize = 24;

/// Milliseconds since the beginning of 1970 in UTC, written in the format of RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// The last time with a four-digit year.
    const LAST: u64 = 253_402_300_799_999;

    /// The characters. [`Error::Value`] after the year 9999.
    pub fn text(self) -> Result<[u8; TIME_LEN]> {
        if self.0 > Self::LAST {
            return Err(Error::Value);
        }
        let (days, of_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Days from the first of March of year 0: a leap day is the last of its year.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = 400 * era + year_of_era + u64::from(month <= 2);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let fields = [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, hour),
            (14, 2, minute),
            (17, 2, of_day / 1000 % 60),
            (20, 3, of_day % 1000),
        ];
        for (at, width, mut value) in fields {
            for place in (at..at + width).rev() {
                text[place] = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
        Ok(text)
    }
}

/// A number with a fixed number of digits behind the point, in a fixed width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// the number without its point: 4542 with two digits behind the point is 45.42
    pub value: i64,
    /// digits behind the point, at most 9
    pub digits: u8,
    /// characters in all, at most 24
    pub width: u8,
}

/// The widest number.
const WIDEST: usize = 24;

impl Fixed {
    /// The characters, right-aligned; [`Error::Length`] if they exceed the width.
    fn text<'t>(&self, out: &'t mut [u8; WIDEST]) -> Result<&'t [u8]> {
        let (width, digits) = (usize::from(self.width), usize::from(self.digits));
        if width > WIDEST || digits > 9 {
            return Err(Error::Value);
        }
        out.fill(b' ');
        let mut at = WIDEST;
        let mut put = |octet: u8| -> Result<()> {
            at = at.checked_sub(1).filter(|at| WIDEST - at <= width).ok_or(Error::Length)?;
            out[at] = octet;
            Ok(())
        };
        let mut rest = self.value.unsigned_abs();
        let mut written = 0;
        while rest > 0 || written <= digits {
            if digits > 0 && written == digits {
                put(b'.')?;
            }
            put(b'0' + (rest % 10) as u8)?;
            rest /= 10;
            written += 1;
        }
        if self.value < 0 {
            put(b'-')?;
        }
        Ok(&out[WIDEST - width..])
    }
}

/// A series of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series<'a> {
    /// name
    pub name: &'a str,
    /// unit, in the context of the measurement
    pub unit: Option<&'a str>,
    /// values
    pub values: &'a [Fixed],
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement<'a> {
    /// beginning of its series
    pub ts: Time,
    /// milliseconds from there to each value; as many as in each series
    pub time: &'a [Fixed],
    /// the series
    pub series: &'a [Series<'a>],
}

/// A message of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice<'a> {
    /// time
    pub ts: Time,
    /// code; a late code is padded by the caller to its declared width
    pub code: &'a str,
    /// severity
    pub severity: Option<&'a str>,
    /// title
    pub title: Option<&'a str>,
    /// origin
    pub origin: Option<&'a str>,
}

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// measurements
    Measurements(&'a [Measurement<'a>]),
    /// messages of a machine
    Notices(&'a [Notice<'a>]),
}

/// A message to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr<'a> {
    /// the identifier of the device
    pub device: &'a str,
    /// the content
    pub body: Body<'a>,
}

impl Repr<'_> {
    /// Writes the message to the front of `buffer` and returns its length. Calls `mark` with the
    /// place of each time, number and code.
    ///
    /// # Errors
    /// An empty list, a series whose length differs from the times, or a number wider than its
    /// hole.
    pub fn emit(&self, buffer: &mut [u8], mark: &mut dyn FnMut(Hole)) -> Result<usize> {
        let mut out = Writer::new(buffer, mark);
        let (kind, list) = match self.body {
            Body::Measurements(list) => (MEASUREMENT, list.len()),
            Body::Notices(list) => (MACHINE, list.len()),
        };
        if list == 0 || self.device.is_empty() {
            return Err(Error::Value);
        }
        out.put(b"{\"content-spec\":\"")?;
        out.put(kind)?;
        out.put(b"\",\"device\":{\"id\":")?;
        quoted(&mut out, self.device)?;
        let mut index = 0;
        match self.body {
            Body::Measurements(list) => {
                out.put(b"},\"measurements\":[")?;
                each(&mut out, list, |out, measurement| measurement.emit(out, &mut index))?;
            }
            Body::Notices(list) => {
                out.put(b"},\"messages\":[")?;
                each(&mut out, list, |out, notice| notice.emit(out, &mut index))?;
            }
        }
        out.put(b"]}")?;
        Ok(out.len())
    }
}

impl Measurement<'_> {
    fn emit(&self, out: &mut Writer<'_, '_>, index: &mut u16) -> Result<()> {
        if self.time.is_empty() || self.series.iter().any(|series| series.values.len() != self.time.len()) {
            return Err(Error::Length);
        }
        out.put(b"{")?;
        let units = || self.series.iter().filter_map(|series| Some((series.name, series.unit?)));
        if units().next().is_some() {
            out.put(b"\"context\":{")?;
            for (i, (name, unit)) in units().enumerate() {
                comma(out, i)?;
                quoted(out, name)?;
                out.put(b":{\"unit\":")?;
                quoted(out, unit)?;
                out.put(b"}")?;
            }
            out.put(b"},")?;
        }
        out.put(b"\"ts\":\"")?;
        out.hole(What::Time, &self.ts.text()?)?;
        out.put(b"\",\"series\":{\"time\":[")?;
        let mut numbers = |out: &mut Writer<'_, '_>, values: &[Fixed]| {
            each(out, values, |out, value| {
                let mut text = [0; WIDEST];
                out.hole(next(index), value.text(&mut text)?)
            })
        };
        numbers(out, self.time)?;
        for series in self.series {
            out.put(b"],")?;
            quoted(out, series.name)?;
            out.put(b":[")?;
            numbers(out, series.values)?;
        }
        out.put(b"]}}")
    }
}

impl Notice<'_> {
    fn emit(&self, out: &mut Writer<'_, '_>, index: &mut u16) -> Result<()> {
        out.put(b"{")?;
        for (name, text) in [("origin", self.origin), ("severity", self.severity), ("title", self.title)] {
            if let Some(text) = text {
                quoted(out, name)?;
                out.put(b":")?;
                quoted(out, text)?;
                out.put(b",")?;
            }
        }
        out.put(b"\"ts\":\"")?;
        out.hole(What::Time, &self.ts.text()?)?;
        out.put(b"\",\"code\":\"")?;
        plain(self.code)?;
        out.hole(next(index), self.code.as_bytes())?;
        out.put(b"\"}")
    }
}

fn next(index: &mut u16) -> What {
    let what = What::Value(*index);
    *index = index.saturating_add(1);
    what
}

fn comma(out: &mut Writer<'_, '_>, at: usize) -> Result<()> {
    if at > 0 { out.put(b",") } else { Ok(()) }
}

fn each<T>(
    out: &mut Writer<'_, '_>,
    list: &[T],
    mut write: impl FnMut(&mut Writer<'_, '_>, &T) -> Result<()>,
) -> Result<()> {
    list.iter().enumerate().try_for_each(|(i, entry)| {
        comma(out, i)?;
        write(out, entry)
    })
}

/// Checks that a text needs no escapes.
fn plain(text: &str) -> Result<()> {
    let odd = |octet: &u8| *octet < 0x20 || *octet == b'"' || *octet == b'\\';
    if text.is_empty() || text.as_bytes().iter().any(odd) { Err(Error::Value) } else { Ok(()) }
}

fn quoted(out: &mut Writer<'_, '_>, text: &str) -> Result<()> {
    plain(text)?;
    out.put(b"\"")?;
    out.put(text.as_bytes())?;
    out.put(b"\"")
}

/// The kind of a parsed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// measurements
    Measurement,
    /// messages of a machine
    Machine,
}

/// A parsed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// its kind
    pub kind: Kind,
    /// the identifier of the device, without unescaping
    pub device: &'a [u8],
    /// measurements or messages in it
    pub entries: usize,
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it ends early. [`Error::Value`] if it is not JSON, has another kind
    /// or version, or lacks a required field: the device's identifier, `ts` of an entry, `series`
    /// of a measurement, or `code` of a machine's message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let (mut spec, mut device, mut measurements, mut messages) = (None, None, None, None);
        if !reader.next_token()?.is_some_and(|token| token.kind == Json::Object) {
            return Err(Error::Value);
        }
        while let Some(name) = member(&mut reader)? {
            match reader.octets(&name) {
                b"content-spec" => once(&mut spec, text(&mut reader)?)?,
                b"device" => once(&mut device, device_id(&mut reader)?)?,
                b"measurements" => once(&mut measurements, entries(&mut reader, b"series", Json::Object)?)?,
                b"messages" => once(&mut messages, entries(&mut reader, b"code", Json::Text)?)?,
                _ => skip(&mut reader)?,
            }
        }
        if reader.next_token()?.is_some() {
            return Err(Error::Value);
        }
        let device = device.ok_or(Error::Value)?;
        let (kind, entries) = match (spec, measurements, messages) {
            (Some(MEASUREMENT), Some(entries), None) => (Kind::Measurement, entries),
            (Some(MACHINE), None, Some(entries)) => (Kind::Machine, entries),
            _ => return Err(Error::Value),
        };
        Ok(Self { kind, device, entries })
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    if place.replace(value).is_some() { Err(Error::Value) } else { Ok(()) }
}

/// The name of the next member; none at the end of the object.
fn member(reader: &mut Reader<'_>) -> Result<Option<Token>> {
    match reader.next_token()? {
        Some(token) if token.kind == Json::Name => Ok(Some(token)),
        Some(token) if token.kind == Json::End => Ok(None),
        _ => Err(Error::Value),
    }
}

fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    match reader.next_token()? {
        Some(token) if token.kind == Json::Text && !token.range.is_empty() => Ok(reader.octets(&token)),
        _ => Err(Error::Value),
    }
}

fn begin(reader: &mut Reader<'_>, kind: Json) -> Result<()> {
    if reader.next_token()?.is_some_and(|token| token.kind == kind) { Ok(()) } else { Err(Error::Value) }
}

/// Skips a value.
fn skip(reader: &mut Reader<'_>) -> Result<()> {
    let first = reader.next_token()?.ok_or(Error::Truncated)?;
    if matches!(first.kind, Json::Object | Json::Array) {
        rest_of(reader, first.depth)?;
    }
    Ok(())
}

/// Skips the rest of the object or array at this depth.
fn rest_of(reader: &mut Reader<'_>, depth: usize) -> Result<()> {
    loop {
        let token = reader.next_token()?.ok_or(Error::Truncated)?;
        if token.kind == Json::End && token.depth == depth {
            return Ok(());
        }
    }
}

fn device_id<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    begin(reader, Json::Object)?;
    let mut id = None;
    while let Some(name) = member(reader)? {
        match reader.octets(&name) {
            b"id" => once(&mut id, text(reader)?)?,
            _ => skip(reader)?,
        }
    }
    id.ok_or(Error::Value)
}

/// The entries of a list, each with a `ts` and with `required`.
fn entries(reader: &mut Reader<'_>, required: &[u8], kind: Json) -> Result<usize> {
    begin(reader, Json::Array)?;
    let mut count = 0;
    loop {
        match reader.next_token()?.ok_or(Error::Truncated)?.kind {
            Json::End if count > 0 => return Ok(count),
            Json::Object => {}
            _ => return Err(Error::Value),
        }
        let (mut ts, mut found) = (None, None);
        while let Some(name) = member(reader)? {
            match reader.octets(&name) {
                b"ts" => once(&mut ts, text(reader)?.len())?,
                name if name == required && kind == Json::Text => once(&mut found, text(reader)?.len())?,
                name if name == required => once(&mut found, series(reader)?)?,
                _ => skip(reader)?,
            }
        }
        ts.and(found).ok_or(Error::Value)?;
        count += 1;
    }
}

/// Lists of one length, one of them named `time`. Returns the length.
fn series(reader: &mut Reader<'_>) -> Result<usize> {
    begin(reader, Json::Object)?;
    let (mut len, mut time) = (None, false);
    while let Some(name) = member(reader)? {
        time |= reader.octets(&name) == b"time";
        begin(reader, Json::Array)?;
        let mut count = 0;
        loop {
            match reader.next_token()?.ok_or(Error::Truncated)?.kind {
                Json::End => break,
                Json::Number | Json::Text | Json::Word => count += 1,
                _ => return Err(Error::Value),
            }
        }
        if *len.get_or_insert(count) != count {
            return Err(Error::Value);
        }
    }
    len.filter(|_| time).ok_or(Error::Value)
}

#[cfg(test)]
mod tests;
