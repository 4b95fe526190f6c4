//! Ways around the Mosquitto plugin that a broker's configuration opens.
//!
//! With `per_listener_settings true` Mosquitto 2.0 asks the plugins of the listener on which a message
//! arrives. A bridge arrives on none, and another listener may have no plugin.

use std::fmt;

/// A way into the broker on which it asks no plugin of this project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bypass {
    /// A bridge, by name.
    Bridge(String),
    /// A listener, by its port and address, or path.
    Listener(String),
}

impl fmt::Display for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, remedy) = match self {
            Self::Bridge(name) => (
                format!("the bridge {name:?}"),
                "set per_listener_settings false, or let the bridge end at another broker",
            ),
            Self::Listener(name) => (
                format!("the listener {name}"),
                "set per_listener_settings false, or give this listener the plugin with its options too",
            ),
        };
        write!(
            f,
            "with per_listener_settings true the broker does not ask this plugin about messages of {what}, so they would pass in the clear (remedy: {remedy})"
        )
    }
}

/// Options that make Mosquitto open its default listener, or belong to it, when they stand before the
/// first `listener`.
const OF_DEFAULT_LISTENER: [&str; 14] = [
    "port",
    "bind_address",
    "bind_interface",
    "cafile",
    "capath",
    "certfile",
    "keyfile",
    "mount_point",
    "max_connections",
    "protocol",
    "psk_file",
    "password_file",
    "plugin",
    "auth_plugin",
];

/// The first bypass in a configuration: its lines in order, with those of included files in place.
/// `None` without `per_listener_settings true`, since every plugin is then asked about all messages.
pub fn find<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<Bypass> {
    let mut per_listener = false;
    let mut bridge = None;
    // The default listener first: its name, whether it is open, and whether it has the plugin.
    let mut listeners = vec![("1883 (the default)".to_owned(), false, false)];
    // The last plugin: its option, and its name where it has one.
    let mut plugin = (String::new(), String::new());
    // Names of plugin_load that are this plugin.
    let mut named = Vec::new();
    for line in lines.into_iter().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_ascii_whitespace();
        let Some(key) = words.next() else { continue };
        let rest = words.collect::<Vec<_>>().join(" ");
        if let [default] = listeners.as_mut_slice() {
            default.1 |= OF_DEFAULT_LISTENER.contains(&key);
        }
        let last = listeners.last_mut()?;
        match key {
            "per_listener_settings" => per_listener = matches!(rest.as_str(), "true" | "1"),
            "connection" if bridge.is_none() => bridge = Some(rest),
            "listener" => listeners.push((rest, true, false)),
            "plugin" | "auth_plugin" | "global_plugin" => plugin = (key.to_owned(), String::new()),
            "plugin_load" => {
                plugin = (key.to_owned(), rest.split(' ').next().unwrap_or_default().to_owned());
            }
            "plugin_use" => last.2 |= named.contains(&rest),
            // No other plugin has this option.
            "plugin_opt_keys" | "auth_opt_keys" => match plugin.0.as_str() {
                "global_plugin" => return None,
                "plugin_load" => named.push(plugin.1.clone()),
                _ => last.2 = true,
            },
            _ => {}
        }
    }
    if !per_listener {
        return None;
    }
    if let [default] = listeners.as_mut_slice() {
        default.1 = true;
    }
    let open = listeners.into_iter().find(|(_, open, has)| *open && !*has);
    bridge.map(Bypass::Bridge).or_else(|| open.map(|(name, ..)| Bypass::Listener(name)))
}

/// A topic or filter that Mosquitto serves itself, before any plugin sees the message.
#[must_use]
pub fn is_brokers_own(filter: &str) -> bool {
    matches!(filter.split('/').next(), Some("$CONTROL" | "$SYS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: &str = "plugin /usr/lib/a.so\nplugin_opt_keys g.toml\n";

    fn bypass(text: &str) -> Option<Bypass> {
        find(text.lines())
    }

    #[test]
    fn settings_for_all_listeners_are_no_bypass() {
        let bridge = "connection in\naddress 127.0.0.1:1955\ntopic plant/# in 1\n";
        assert_eq!(bypass(&format!("{PLUGIN}listener 1956\n{bridge}")), None);
        assert_eq!(
            bypass(&format!("per_listener_settings false\nlistener 1\n{PLUGIN}listener 2\n{bridge}")),
            None
        );
        assert_eq!(bypass(&format!("#per_listener_settings true\nlistener 1\n{PLUGIN}{bridge}")), None);
    }

    #[test]
    fn bridges_pass_by_plugins_of_listeners() {
        let text = format!("per_listener_settings true\nlistener 1956 127.0.0.1\n{PLUGIN}connection in\n");
        assert_eq!(bypass(&text), Some(Bypass::Bridge("in".into())));
        let remedy = bypass(&text).map(|found| found.to_string()).unwrap_or_default();
        assert!(remedy.contains("remedy: set per_listener_settings false"), "{remedy}");
        let late = format!("listener 1956\n{PLUGIN}  connection   a b\nper_listener_settings   1\n");
        assert_eq!(bypass(&late), Some(Bypass::Bridge("a b".into())));
    }

    #[test]
    fn listeners_without_the_plugin_are_found() {
        let on = "per_listener_settings true\n";
        assert_eq!(bypass(&format!("{on}listener 1\n{PLUGIN}listener 2\n{PLUGIN}")), None);
        let second = bypass(&format!("{on}listener 1\n{PLUGIN}listener 2 ::1\nallow_anonymous true\n"));
        assert_eq!(second, Some(Bypass::Listener("2 ::1".into())));
        let other = bypass(&format!("{on}listener 1\n{PLUGIN}listener 2\nplugin /usr/lib/dynsec.so\n"));
        assert_eq!(other, Some(Bypass::Listener("2".into())));
        let default = bypass(&format!("{on}port 1884\nlistener 1\n{PLUGIN}"));
        assert!(matches!(default, Some(Bypass::Listener(_))), "{default:?}");
        assert_eq!(bypass(&format!("{on}persistence true\nlistener 1\n{PLUGIN}")), None);
        assert_eq!(bypass(&format!("{on}{PLUGIN}")), None);
        assert!(bypass(on).is_some());
    }

    #[test]
    fn plugins_of_all_listeners_are_known() {
        let on = "per_listener_settings true\n";
        let bridge = "listener 1\nconnection in\n";
        assert_eq!(bypass(&format!("{on}global_{PLUGIN}{bridge}")), None);
        let loaded = format!("{on}plugin_load mine /usr/lib/a.so\nplugin_opt_keys g.toml\n");
        assert_eq!(bypass(&format!("{loaded}listener 1\nplugin_use mine\n")), None);
        assert!(bypass(&format!("{loaded}listener 1\nplugin_use mine\nlistener 2\n")).is_some());
    }

    #[test]
    fn brokers_own_topics_are_known() {
        assert!(["$CONTROL/dynamic-security/v1", "$CONTROL/#", "$SYS/#"].into_iter().all(is_brokers_own));
        assert!(!["#", "plant/$CONTROL", "$CONTROLS/x", "$shop/x"].into_iter().any(is_brokers_own));
    }
}
