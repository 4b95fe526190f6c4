//! Mosquitto's access list and password file from group files, so that only members may publish at
//! the broker.

use antedate_host::fault::Fault;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Sha512;

use crate::file::GroupFile;

/// The `acl_file` of mosquitto.conf(5). Members that publish may write and read the group's topics,
/// the others may read them. All may read the rotation messages for all and their own; `manager` may
/// write them. A user for `enrolment` may put requests and read answers.
///
/// # Errors
/// When a line cannot express a topic: the broker would read another topic or other rights.
pub fn access_list(groups: &[GroupFile], manager: &str, enrolment: Option<&str>) -> Result<String, Fault> {
    let mut text =
        String::from("# Made by `antedate mqtt acl` from the group files. Who is not named has no rights.\n");
    for group in groups {
        let all = group.topics.iter().chain([&group.rotation_topic]);
        if let Some(topic) = all.into_iter().find(|topic| !fits_a_line(topic)) {
            let what = format!("{topic:?} cannot be written into Mosquitto's access list");
            let remedy = "choose topics without line breaks, and without spaces at their ends";
            return Err(Fault::of_file(&group.file, what, remedy));
        }
        text.push_str(&format!(
            "\n# group {0}\nuser {manager}\ntopic readwrite {1}\ntopic readwrite {1}/+\ntopic readwrite antedate/enrol/{0}/#\n",
            group.group, group.rotation_topic
        ));
        if let Some(enrolment) = enrolment {
            text.push_str(&format!(
                "\nuser {enrolment}\ntopic write antedate/enrol/{0}/+\ntopic readwrite antedate/enrol/{0}/+/answer\n",
                group.group
            ));
        }
        for member in &group.members {
            text.push_str(&format!(
                "\nuser {0}\ntopic read {1}\ntopic read {1}/{0}\n",
                member.name, group.rotation_topic
            ));
            let right = if member.publish { "readwrite" } else { "read" };
            for topic in &group.topics {
                text.push_str(&format!("topic {right} {topic}\n"));
            }
        }
    }
    Ok(text)
}

/// Whether the broker reads back the same topic. It reads lines and trims white space around a
/// topic.
fn fits_a_line(topic: &str) -> bool {
    let space = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let bytes = topic.as_bytes();
    !bytes.contains(&b'\n') && !bytes.first().is_some_and(space) && !bytes.last().is_some_and(space)
}

/// Iterations of PBKDF2: the default of mosquitto_passwd(1). The passwords have 128 random bits, so
/// this suffices.
const ITERATIONS: u32 = 101;

/// A line of Mosquitto's password file, with PBKDF2 and SHA-512 (`$7$`).
#[must_use]
pub fn password_line(user: &str, password: &str, salt: &[u8; 12]) -> String {
    let mut hash = [0; 64];
    pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), salt, ITERATIONS, &mut hash);
    format!("{user}:$7${ITERATIONS}${}${}\n", STANDARD.encode(salt), STANDARD.encode(hash))
}

/// A random password of 128 bits.
///
/// # Errors
/// When the system has no random numbers.
pub fn password() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(antedate_host::hex::hex(&bytes))
}
