//! An end of an alarm connection (IEC 61158-6-10, APMS and APMR): each data frame is acknowledged,
//! otherwise repeated; numbers keep repetitions apart.

use antedate_wire::profinet::alarm::{Content, Pdu, PduType, Priority};
use antedate_wire::profinet::cm::{Status, Writer, connect::AlarmCr};

const TIMEOUT_UNIT_NS: u64 = 100_000_000;
/// The first number, and the one before it.
const FIRST: u16 = 0xffff;
const BEFORE_FIRST: u16 = 0xfffe;
/// Numbers after the first wrap at 15 bits.
const WRAP: u16 = 0x7fff;
/// Content of the longest alarm.
const MAX_LEN: usize = 200;

/// One end.
#[derive(Clone, Debug)]
pub struct Endpoint {
    own: u16,
    peer: u16,
    timeout_ns: u64,
    retries: u16,
    next: u16,
    last: u16,
    expected: u16,
    received: u16,
    pending: Option<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    content: Vec<u8>,
    due_ns: u64,
    left: u16,
}

/// The result of a received alarm frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The frame to send back, behind the EtherType.
    pub reply: Option<Vec<u8>>,
    /// New content.
    pub content: Option<Vec<u8>>,
    /// The peer ended the connection.
    pub ended: Option<Status>,
}

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// The frame to repeat, behind the EtherType.
    Repeat(Vec<u8>),
    /// No repetition was acknowledged.
    GaveUp,
}

impl Endpoint {
    /// An end with its own number and the peer's, and the connection's times.
    #[must_use]
    pub fn new(own: u16, peer: u16, connection: &AlarmCr) -> Self {
        Self {
            own,
            peer,
            timeout_ns: u64::from(connection.timeout_factor.max(1)) * TIMEOUT_UNIT_NS,
            retries: connection.retries,
            next: FIRST,
            last: BEFORE_FIRST,
            expected: FIRST,
            received: BEFORE_FIRST,
            pending: None,
        }
    }

    fn pdu(&self, kind: PduType, content: &[u8]) -> Vec<u8> {
        let data = kind == PduType::Data;
        let pdu = Pdu {
            priority: Priority::Low,
            to: self.peer,
            from: self.own,
            kind,
            acknowledge: data,
            sequence: if data { self.next } else { self.last },
            acknowledged: self.received,
            content,
        };
        let mut bytes = vec![0; MAX_LEN + 32];
        let len = pdu.emit(&mut bytes).unwrap_or(0);
        bytes.truncate(len);
        bytes
    }

    /// The frame of an alarm or of its acknowledgement. `None` while another is on its way.
    pub fn send(&mut self, now_ns: u64, content: &Content<'_>) -> Option<Vec<u8>> {
        if self.pending.is_some() {
            return None;
        }
        let mut bytes = vec![0; MAX_LEN];
        let mut writer = Writer::new(&mut bytes);
        content.emit(Priority::Low, &mut writer).ok()?;
        let len = writer.len();
        bytes.truncate(len);
        let frame = self.pdu(PduType::Data, &bytes);
        self.pending = Some(Pending { content: bytes, due_ns: now_ns + self.timeout_ns, left: self.retries });
        Some(frame)
    }

    /// The frame that tells the peer that this end ends the connection.
    #[must_use]
    pub fn end(&self, status: Status) -> Vec<u8> {
        self.pdu(PduType::Error, &status.0.to_be_bytes())
    }

    /// Takes a frame of the peer.
    pub fn hear(&mut self, pdu: &Pdu<'_>) -> Heard {
        let mut heard = Heard::default();
        if (pdu.to, pdu.from) != (self.own, self.peer) {
            return heard;
        }
        match pdu.kind {
            PduType::Ack => self.acknowledge(pdu.acknowledged),
            PduType::Data if pdu.sequence == self.expected => {
                self.received = self.expected;
                self.expected = self.expected.wrapping_add(1) & WRAP;
                self.acknowledge(pdu.acknowledged);
                heard.reply = Some(self.pdu(PduType::Ack, &[]));
                heard.content = Some(pdu.content.to_vec());
            }
            // Its acknowledgement was lost.
            PduType::Data if pdu.sequence == self.received => {
                heard.reply = Some(self.pdu(PduType::Ack, &[]));
            }
            PduType::Data => heard.reply = Some(self.pdu(PduType::Nack, &[])),
            PduType::Error => {
                let status = pdu.content.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
                heard.ended = Some(Status(status));
            }
            PduType::Nack | PduType::Unknown(_) => {}
        }
        heard
    }

    fn acknowledge(&mut self, number: u16) {
        if self.pending.is_some() && number == self.next {
            self.pending = None;
            self.last = self.next;
            self.next = self.next.wrapping_add(1) & WRAP;
        }
    }

    /// Takes the time.
    pub fn poll(&mut self, now_ns: u64) -> Due {
        let timeout_ns = self.timeout_ns;
        match &mut self.pending {
            Some(pending) if pending.due_ns <= now_ns => {
                if pending.left == 0 {
                    return Due::GaveUp;
                }
                pending.left -= 1;
                pending.due_ns = now_ns.saturating_add(timeout_ns);
                let content = pending.content.clone();
                Due::Repeat(self.pdu(PduType::Data, &content))
            }
            _ => Due::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_wire::profinet::alarm::{Alarm, AlarmType};

    const CONNECTION: AlarmCr = AlarmCr { timeout_factor: 1, retries: 2, reference: 0, max_len: 200 };
    const ALARM: Alarm = Alarm { kind: AlarmType::Process, api: 0, slot: 1, subslot: 1, specifier: 0 };
    const NOTIFICATION: Content<'_> =
        Content::Notification { alarm: ALARM, module: 1, submodule: 1, data: &[] };

    fn ends() -> (Endpoint, Endpoint) {
        (Endpoint::new(1, 2, &CONNECTION), Endpoint::new(2, 1, &CONNECTION))
    }

    fn hear(end: &mut Endpoint, frame: &[u8]) -> Heard {
        end.hear(&Pdu::parse(frame).unwrap())
    }

    #[test]
    fn alarms_arrive_once_and_in_order() {
        let (mut device, mut controller) = ends();
        for _ in 0..5 {
            let frame = device.send(0, &NOTIFICATION).unwrap();
            assert_eq!(device.send(0, &NOTIFICATION), None, "one at a time");
            let heard = hear(&mut controller, &frame);
            assert!(Content::parse(&heard.content.unwrap()) == Ok(NOTIFICATION));
            // The acknowledgement was lost, so the frame comes again.
            let Due::Repeat(again) = device.poll(TIMEOUT_UNIT_NS) else { panic!("no repetition") };
            let heard = hear(&mut controller, &again);
            assert_eq!(heard.content, None);
            hear(&mut device, &heard.reply.unwrap());
            assert_eq!(device.poll(u64::MAX), Due::Nothing);
            let done = Content::Acknowledgement { alarm: ALARM, status: Status::OK };
            let frame = controller.send(0, &done).unwrap();
            let heard = hear(&mut device, &frame);
            assert!(heard.content.is_some());
            hear(&mut controller, &heard.reply.unwrap());
        }
    }

    #[test]
    fn silence_ends_an_alarm() {
        let (mut device, _) = ends();
        device.send(0, &NOTIFICATION).unwrap();
        assert_eq!(device.poll(TIMEOUT_UNIT_NS - 1), Due::Nothing);
        for n in 1..=2 {
            assert!(matches!(device.poll(TIMEOUT_UNIT_NS * n), Due::Repeat(_)));
        }
        assert_eq!(device.poll(TIMEOUT_UNIT_NS * 3), Due::GaveUp);
    }

    #[test]
    fn other_ends_and_old_numbers_are_ignored() {
        let (mut device, mut controller) = ends();
        let frame = Endpoint::new(1, 3, &CONNECTION).send(0, &NOTIFICATION).unwrap();
        assert_eq!(hear(&mut controller, &frame), Heard::default());
        let frame = device.send(0, &NOTIFICATION).unwrap();
        let stale = hear(&mut controller, &frame).reply.unwrap();
        hear(&mut device, &stale);
        device.send(0, &NOTIFICATION).unwrap();
        hear(&mut device, &stale);
        assert!(matches!(device.poll(u64::MAX), Due::Repeat(_)), "an old acknowledgement");
        let end = controller.end(Status::CONSUMER_TIMED_OUT);
        assert_eq!(hear(&mut device, &end).ended, Some(Status::CONSUMER_TIMED_OUT));
    }
}
