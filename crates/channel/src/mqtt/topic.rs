//! Topic names and filters (MQTT 3.1.1 and 5.0, section 4.7).

use core::fmt;

/// The reason why a text is not a topic name or filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicError {
    /// It is empty.
    Empty,
    /// It is longer than 65,535 bytes.
    Long,
    /// It contains the character U+0000.
    Null,
    /// The name contains a wildcard.
    Wildcard,
    /// `+` is not alone on its level, or `#` is not alone on the last one.
    Misplaced,
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a topic has one character at least",
            Self::Long => "a topic has 65535 bytes at most",
            Self::Null => "a topic does not contain the character U+0000",
            Self::Wildcard => "a topic to publish on has no wildcards (+ and #)",
            Self::Misplaced => "+ stands alone on its level, # alone on the last one",
        })
    }
}

impl core::error::Error for TopicError {}

fn check(text: &str) -> Result<(), TopicError> {
    match text {
        "" => Err(TopicError::Empty),
        _ if text.len() > 0xffff => Err(TopicError::Long),
        _ if text.contains('\0') => Err(TopicError::Null),
        _ => Ok(()),
    }
}

/// Checks the name of a topic.
///
/// # Errors
/// [`TopicError`].
pub fn check_name(name: &str) -> Result<(), TopicError> {
    check(name)?;
    if name.contains(['+', '#']) { Err(TopicError::Wildcard) } else { Ok(()) }
}

/// Checks a filter.
///
/// # Errors
/// [`TopicError`].
pub fn check_filter(filter: &str) -> Result<(), TopicError> {
    check(filter)?;
    let last = filter.split('/').count() - 1;
    for (level, text) in filter.split('/').enumerate() {
        let misplaced = text.len() > 1 && text.contains(['+', '#']) || text == "#" && level != last;
        if misplaced {
            return Err(TopicError::Misplaced);
        }
    }
    Ok(())
}

/// Whether a filter matches a name. Both must be valid.
///
/// ```
/// use antedate_channel::mqtt::topic::matches;
/// assert!(matches("plant/+/force", "plant/press7/force"));
/// assert!(matches("plant/#", "plant") && matches("plant/#", "plant/a/b"));
/// assert!(!matches("#", "$SYS/uptime"));
/// ```
pub fn matches(filter: &str, name: &str) -> bool {
    if name.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = name.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Whether a filter matches every name that another one matches. Both must be valid.
///
/// ```
/// use antedate_channel::mqtt::topic::covers;
/// assert!(covers("plant/#", "plant/+/force") && !covers("plant/line4/#", "plant/+/force"));
/// ```
pub fn covers(wide: &str, narrow: &str) -> bool {
    // Leading wildcards do not match a name that begins with $.
    if narrow.starts_with('$') && wide.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = narrow.split('/');
    for wanted in wide.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            (_, Some("#")) => return false,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Whether both filters match a common name. Both must be valid.
///
/// ```
/// use antedate_channel::mqtt::topic::overlap;
/// assert!(overlap("plant/#", "plant/+/force") && overlap("+/a", "b/+"));
/// assert!(!overlap("plant/line4/#", "plant/line5/#"));
/// ```
pub fn overlap(one: &str, other: &str) -> bool {
    let hidden = |filter: &str, by: &str| filter.starts_with('$') && by.starts_with(['+', '#']);
    if hidden(one, other) || hidden(other, one) {
        return false;
    }
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || a == "+" || b == "+" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_per_standard() {
        for (filter, name) in [
            ("sport/tennis/player1/#", "sport/tennis/player1"),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
            ("#", "a"),
            ("+", "finance"),
            ("+/+", "/finance"),
            ("/+", "/finance"),
            ("sport/+", "sport/"),
            ("$SYS/#", "$SYS/a"),
        ] {
            assert!(matches(filter, name), "{filter} {name}");
        }
        for (filter, name) in [
            ("+", "/finance"),
            ("sport/+", "sport"),
            ("#", "$SYS/a"),
            ("+/monitor", "$SYS/monitor"),
            ("a/b", "a/b/c"),
            ("a/b/c", "a/b"),
            ("a", "A"),
        ] {
            assert!(!matches(filter, name), "{filter} {name}");
        }
    }

    #[test]
    fn filter_covers_a_narrower_one() {
        for (wide, narrow) in [
            ("plant/#", "plant/#"),
            ("plant/#", "plant"),
            ("plant/#", "plant/+/force"),
            ("plant/+/force", "plant/line4/force"),
            ("plant/+", "plant/+"),
            ("#", "zz/#"),
        ] {
            assert!(covers(wide, narrow), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("plant/#", "zz/#"),
            ("plant/line4/#", "#"),
            ("plant/+", "plant/#"),
            ("plant/+/#", "plant/#"),
            ("plant/+", "plant"),
            ("plant", "plant/+"),
            ("#", "$SYS/#"),
        ] {
            assert!(!covers(wide, narrow), "{wide} {narrow}");
        }
    }

    #[test]
    fn filters_overlap_on_a_common_name() {
        for (one, other) in [
            ("o/#", "o/line/#"),
            ("o/#", "o"),
            ("#", "a/b"),
            ("a/+/c", "a/b/+"),
            ("+/+", "a/#"),
            ("a/b", "a/b"),
            ("$SYS/#", "$SYS/+"),
        ] {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("o/a/#", "o/b/#"),
            ("a", "b"),
            ("a/+", "a"),
            ("a/+/c", "a/b/d"),
            ("+", "a/b"),
            ("#", "$SYS/a"),
            ("+/a", "$SYS/a"),
        ] {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} {other}");
        }
    }

    #[test]
    fn invalid_topics_are_refused_with_reason() {
        assert_eq!(check_filter("sport/tennis#"), Err(TopicError::Misplaced));
        assert_eq!(check_filter("sport/#/ranking"), Err(TopicError::Misplaced));
        assert_eq!(check_filter("sport+"), Err(TopicError::Misplaced));
        assert_eq!(check_filter("sport/+/#"), Ok(()));
        assert_eq!(check_name("sport/+"), Err(TopicError::Wildcard));
        assert_eq!(check_name(""), Err(TopicError::Empty));
        assert_eq!(check_name("a#"), Err(TopicError::Wildcard));
        assert_eq!(check_name("a\0"), Err(TopicError::Null));
        assert_eq!((check_filter(""), check_filter("a\0")), (Err(TopicError::Empty), Err(TopicError::Null)));
        let longest = "a".repeat(65_535);
        assert_eq!((check_name(&longest), check_filter(&longest)), (Ok(()), Ok(())));
        let longer = "a".repeat(65_536);
        assert_eq!(
            (check_name(&longer), check_filter(&longer)),
            (Err(TopicError::Long), Err(TopicError::Long))
        );
    }
}
