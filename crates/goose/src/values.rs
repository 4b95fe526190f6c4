//! The values of a data set as JSON, by the names of their data attributes.

use antedate_host::fault::nearest;
use antedate_wire::goose::{Value, Values};
use serde_json::{Map, Value as Json};

use crate::control::{Content, Control, Entry};
use crate::types::{Datum, Type};

/// Why a line of values was refused. Nothing of it was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It is no JSON.
    #[error("is no JSON: {0}")]
    Json(String),
    /// It is no object.
    #[error("is no JSON object, as in {{\"{0}\": ...}}")]
    Object(String),
    /// The data set has no such data attribute.
    #[error("`{0}` is not in the data set{1}")]
    Unknown(String, String),
    /// Several data attributes have this short name.
    #[error("`{0}` is ambiguous: write its logical device too")]
    Ambiguous(String),
    /// The value is of another type.
    #[error("`{0}` is {1}; it must be {2}")]
    Type(String, String, String),
}

/// The reason why a data set cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is a string, whose length varies; leave it out of the data set")]
pub struct VariableError(String);

/// The values that a publisher has.
#[derive(Debug)]
pub struct Board<'c> {
    entries: &'c [Entry],
    leaves: Vec<(&'c str, &'c Type)>,
    values: Vec<Option<Datum>>,
}

impl<'c> Board<'c> {
    /// A board without values.
    ///
    /// # Errors
    /// When the data set has strings.
    pub fn new(control: &'c Control) -> Result<Self, VariableError> {
        let leaves = control.leaves();
        if let Some((name, _)) = leaves.iter().find(|(_, of)| !of.is_fixed()) {
            return Err(VariableError((*name).to_owned()));
        }
        Ok(Self { entries: &control.entries, values: vec![None; leaves.len()], leaves })
    }

    /// Takes a line of JSON: an object with values by the names of data attributes, with or without
    /// the logical device. Returns whether a value changed.
    ///
    /// Times that were not given are those of the last change of their data object, `now`.
    ///
    /// # Errors
    /// When a name or a value does not fit. Nothing is taken then.
    pub fn take(&mut self, line: &str, now: [u8; 8]) -> Result<bool, LineError> {
        let json: Json = serde_json::from_str(line).map_err(|error| LineError::Json(error.to_string()))?;
        let example = || self.leaves.first().map_or(String::new(), |(name, _)| (*name).to_owned());
        let given = json.as_object().ok_or_else(|| LineError::Object(example()))?;
        let mut next = self.values.clone();
        let mut named = vec![false; next.len()];
        for (name, value) in given {
            let at = self.find(name)?;
            let of = self.leaves[at].1;
            let datum = of
                .read(value)
                .ok_or_else(|| LineError::Type(name.clone(), value.to_string(), of.expected()))?;
            (next[at], named[at]) = (Some(datum), true);
        }
        let changed: Vec<bool> = next.iter().zip(&self.values).map(|(new, old)| new != old).collect();
        for at in 0..next.len() {
            let (name, of) = self.leaves[at];
            let is_moved = |other: usize| changed[other] && object(self.leaves[other].0) == object(name);
            if !named[at] && matches!(of, Type::Timestamp) && (0..next.len()).any(is_moved) {
                next[at] = Some(Datum::Time(now));
            }
        }
        self.values = next;
        Ok(changed.contains(&true))
    }

    fn find(&self, name: &str) -> Result<usize, LineError> {
        let mut found = self.leaves.iter().enumerate().filter(|(_, (known, _))| {
            *known == name || known.split_once('/').is_some_and(|(_, short)| short == name)
        });
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => Err(LineError::Ambiguous(name.to_owned())),
            (None, _) => {
                let short = |known: &'c str| known.split_once('/').map_or(known, |(_, short)| short);
                let known = self.leaves.iter().map(|(known, _)| short(known));
                let near = (name.len() < 256).then(|| nearest(name, known)).flatten();
                let near = near.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
                Err(LineError::Unknown(name.to_owned(), near))
            }
        }
    }

    /// The data attributes without a value, without those that have a default.
    #[must_use]
    pub fn missing(&self) -> Vec<&'c str> {
        let all = self.leaves.iter().zip(&self.values);
        let lacking = all.filter(|((_, of), value)| value.is_none() && of.default([0; 8]).is_none());
        lacking.map(|((name, _), _)| *name).collect()
    }

    /// Calls `then` with the values of the data set. What has no value is zero.
    pub fn with<R>(&self, now: [u8; 8], then: impl FnOnce(&[Value<'_>]) -> R) -> R {
        let all: Vec<Datum> = self
            .leaves
            .iter()
            .zip(&self.values)
            .map(|((_, of), value)| value.or_else(|| of.default(now)).unwrap_or_else(|| zero(of)))
            .collect();
        let (mut result, mut then) = (None, Some(then));
        nest(self.entries, &all, Vec::with_capacity(self.entries.len()), &mut |values, _| {
            result = then.take().map(|then| then(values));
        });
        result.unwrap_or_else(|| unreachable!("the last step is called once"))
    }
}

/// The data object of a data attribute: its name up to the second part behind the logical node.
fn object(name: &str) -> &str {
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    dots.nth(1).map_or(name, |end| &name[..end])
}

/// A value of a type, for the layout of a message.
fn zero(of: &Type) -> Datum {
    match of {
        Type::Boolean => Datum::Boolean(false),
        Type::Integer(octets) => Datum::Integer(0, octets + 1),
        Type::Unsigned(octets) => Datum::Unsigned(0, octets + 1),
        Type::Float32 => Datum::Float32(0.0),
        Type::Float64 => Datum::Float64(0.0),
        Type::Enum(_) => Datum::Integer(0, 2),
        Type::Pair(_) => Datum::Bits([0; 2], 1, 6),
        Type::Quality | Type::Text | Type::Octets => Datum::Bits([0; 2], 2, 3),
        Type::Timestamp => Datum::Time([0; 8]),
    }
}

/// The last step of [`nest`]: takes the values and the data that are left.
type Step<'s> = &'s mut dyn FnMut(&[Value<'_>], &[Datum]);

/// Appends the values of entries to `before`, and calls `then` with all of them. A structure borrows
/// its values from a deeper call, so the rest of the entries follows inside it.
fn nest<'a>(entries: &[Entry], data: &'a [Datum], mut before: Vec<Value<'a>>, then: Step<'_>) {
    let mut data = data;
    for (at, entry) in entries.iter().enumerate() {
        match &entry.content {
            Content::Leaf(_) => {
                let Some((first, rest)) = data.split_first() else { return };
                before.push(first.value());
                data = rest;
            }
            Content::Structure(parts) => {
                return nest(parts, data, Vec::new(), &mut |values, data| {
                    let mut all = before.clone();
                    all.push(Value::Structure(Values::Given(values)));
                    nest(&entries[at + 1..], data, all, then);
                });
            }
        }
    }
    then(&before, data);
}

/// The difference between received values and a data set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValuesError {
    /// The number of entries differs.
    #[error("has {0} entries, not {1}")]
    Entries(usize, usize),
    /// An entry is of another type.
    #[error("has another type at `{0}`")]
    Type(String),
}

/// Received values by the names of their data attributes.
///
/// # Errors
/// When they are not those of the data set.
pub fn show(control: &Control, values: &Values<'_>) -> Result<Map<String, Json>, ValuesError> {
    let mut out = Map::new();
    let count = values.iter().count();
    if count != control.entries.len() {
        return Err(ValuesError::Entries(count, control.entries.len()));
    }
    for (entry, value) in control.entries.iter().zip(values.iter()) {
        insert(entry, value, &mut out)?;
    }
    Ok(out)
}

fn insert(entry: &Entry, value: Value<'_>, out: &mut Map<String, Json>) -> Result<(), ValuesError> {
    let wrong = || ValuesError::Type(entry.name.clone());
    match (&entry.content, value) {
        (Content::Leaf(of), value) => {
            out.insert(entry.name.clone(), of.show(value).ok_or_else(wrong)?);
        }
        (Content::Structure(parts), Value::Structure(values)) => {
            if values.iter().count() != parts.len() {
                return Err(wrong());
            }
            for (part, value) in parts.iter().zip(values.iter()) {
                insert(part, value, out)?;
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
