//! Properties of MQTT 5 (section 2.2.2) that a user gives or reads.
//!
//! They are in the clear and nobody authenticates them: a broker may change them.

/// A pair of texts of the user.
pub type UserProperty = (String, String);

/// The properties of a publish, a will, or a received message (sections 3.1.3.2 and 3.3.2.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageProperties {
    /// The kind of content, as MIME types name it.
    pub content_type: Option<String>,
    /// The topic for an answer.
    pub response_topic: Option<String>,
    /// Octets that the answer repeats.
    pub correlation_data: Option<Vec<u8>>,
    /// Seconds for which the broker keeps the message; of a received one, what is left of them.
    pub message_expiry_interval: Option<u32>,
    /// Texts of the user.
    pub user: Vec<UserProperty>,
    /// The identifiers of the subscriptions that a received message is of.
    pub subscriptions: Vec<usize>,
}

/// The properties of a client's packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// Of the connection.
    pub connect: ConnectProperties,
    /// Of each publish.
    pub publish: MessageProperties,
    /// Of the will.
    pub will: MessageProperties,
    /// Seconds between the loss of the client and its will.
    pub will_delay_interval: Option<u32>,
    /// Texts of the user in each subscription, and its identifier.
    pub subscribe: (Vec<UserProperty>, Option<usize>),
    /// Of the disconnect.
    pub disconnect: DisconnectProperties,
}

/// The properties of a connection (section 3.1.2.11).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectProperties {
    /// Seconds for which the broker keeps the session after the connection.
    pub session_expiry_interval: Option<u32>,
    /// The most messages of QoS 1 and 2 that the broker sends ahead.
    pub receive_maximum: Option<u16>,
    /// The longest packet that the client takes.
    pub maximum_packet_size: Option<u32>,
    /// The most topic aliases that the broker may use.
    pub topic_alias_maximum: Option<u16>,
    /// Texts of the user.
    pub user: Vec<UserProperty>,
}

/// The properties of a disconnect (section 3.14.2.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisconnectProperties {
    /// Seconds for which the broker keeps the session from now on.
    pub session_expiry_interval: Option<u32>,
    /// Texts of the user.
    pub user: Vec<UserProperty>,
}
