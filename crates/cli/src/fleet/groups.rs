//! MQTT groups of a fleet: their files, and what their brokers lack.

use std::path::PathBuf;
use std::time::Duration;

use antedate_fleet::home::{Advance, Home};
use clap::Args;
use tokio::time::timeout;

use super::{Place, block_on, manage};
use crate::failure::{Done, Failure};
use crate::mqtt::BrokerOptions;
use crate::output;

/// The longest time for a broker, if nobody else waits.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct SetMqtt {
    #[command(flatten)]
    place: Place,
    /// The group.
    #[arg(value_name = "GROUP", value_parser = manage::name)]
    name: String,
    /// The manager's file, of which the fleet keeps a copy (antedate keygen mqtt --managed).
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The broker. [default: localhost]
    #[arg(last = true, value_name = "OPTION", allow_hyphen_values = true)]
    broker: Vec<String>,
}

impl SetMqtt {
    pub(super) fn run(self) -> Done {
        let home = self.place.open()?;
        let user = BrokerOptions::read(&self.broker)?.user()?;
        home.set_mqtt(&self.name, self.file.as_deref(), self.broker, user)?;
        let devices = home.members().filter(|(_, member)| member.mqtt == self.name).count();
        let place = home.directory().join("mqtt");
        output::print(&format!(
            "the MQTT group {0} is set; next: `antedate fleet set device NAME mqtt={0}`, and `antedate fleet apply` for \
             its {devices} device(s)\n{1}/{0}.toml  the manager's file: topics are changed there\n{1}/{0}.acl   the \
             broker's acl_file, written with each change of the members\n",
            self.name,
            place.display()
        ))
    }
}

/// A group with what its broker lacks, or why that is not known.
type Due = Vec<(String, Result<Advance, Failure>)>;
/// The names of groups whose brokers have it, or why not.
type Announced = Vec<(String, Result<(), Failure>)>;

fn advance(home: &Home, name: &str, rotates: bool) -> Option<(String, Result<Advance, Failure>)> {
    match home.advance_mqtt(name, rotates) {
        Ok(advance) => Some((name.to_owned(), Ok(advance?))),
        Err(faults) => Some((name.to_owned(), Err(faults.into()))),
    }
}

/// Makes the next epoch of all groups that devices have left, and finds those with new members.
pub(super) fn due(home: &Home) -> Due {
    home.mqtt_groups().iter().filter_map(|name| advance(home, name, false)).collect()
}

/// Publishes what the brokers lack. One that is away does not keep the others waiting.
pub(super) async fn announce(due: Due, patience: Duration) -> Announced {
    let mut all = Announced::new();
    for (name, advance) in due {
        let done = async {
            let advance = advance?;
            let broker = BrokerOptions::read(&advance.broker)?;
            let late =
                |_| Failure::Verdict(format!("its broker has not answered for {} s", patience.as_secs()));
            let said = timeout(patience, broker.announce(&advance.manager)).await.map_err(late)??;
            output::print(&said)
        };
        let done = done.await;
        all.push((name, done));
    }
    all
}

/// Writes down what brokers have, and tells what they lack. Returns how many have it.
pub(super) fn written(home: &Home, announced: Announced) -> Result<usize, Failure> {
    let (mut count, mut lacking) = (0, Vec::new());
    for (name, done) in announced {
        match done.and_then(|()| Ok(home.set_mqtt_published(&name)?)) {
            Ok(()) => count += 1,
            Err(failure) => {
                failure.report();
                lacking.push(name);
            }
        }
    }
    if lacking.is_empty() {
        return Ok(count);
    }
    let names = lacking.join(", ");
    Err(Failure::Verdict(format!(
        "members of the MQTT group(s) {names} may lack the newest key (remedy: mend that, and call antedate fleet apply)"
    )))
}

/// Publishes what the brokers lack, and writes it down. Returns how many groups there were.
pub(super) async fn publish(home: &Home, due: Due) -> Result<usize, Failure> {
    let announced = announce(due, PATIENCE).await;
    written(home, announced)
}

/// Gives a group its next epoch.
pub(super) fn rotate(place: &Place, name: &str) -> Done {
    let home = place.open()?;
    if !home.members().any(|(_, member)| member.mqtt == name) {
        return Err(Failure::usage(
            format!("the MQTT group \"{name}\" has no members"),
            "see `antedate fleet devices`",
        ));
    }
    let due = advance(&home, name, true).into_iter().collect();
    block_on(publish(&home, due)).map(drop)
}
