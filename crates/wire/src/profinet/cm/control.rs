//! Control and release calls: the steps of a connection's set-up and its end.

use super::{BlockType, Reader, Writer};
use crate::Result;
use crate::dcerpc::Uuid;

wire_enum! {
    /// The step.
    pub enum Command(u16) {
        /// end of parameters, by the controller
        ParameterEnd = 0x0001,
        /// application ready, by the device
        ApplicationReady = 0x0002,
        /// release
        Release = 0x0004,
        /// the answer to each
        Done = 0x0008,
    }
}

/// The body of a control or release block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// the connection
    pub ar: Uuid,
    /// the controller's number of it
    pub session_key: u16,
    /// the step
    pub command: Command,
}

impl Control {
    /// Reads a block's body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        reader.u16()?;
        let ar = Uuid(reader.array()?);
        let session_key = reader.u16()?;
        // For the alarm of a plugged module, otherwise reserved.
        reader.u16()?;
        let command = Command::from_number(reader.u16()?);
        // The properties of the command.
        reader.u16()?;
        Ok(Self { ar, session_key, command })
    }

    /// Writes the block.
    pub fn emit(&self, kind: BlockType, writer: &mut Writer<'_>) -> Result<()> {
        writer.block(kind, |writer| {
            writer.u16(0)?;
            writer.put(&self.ar.0)?;
            writer.u16(self.session_key)?;
            writer.u16(0)?;
            writer.u16(self.command.number())?;
            writer.u16(0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Block, Blocks};
    use super::*;
    use crate::Error;

    #[test]
    fn control_block_round_trips() {
        let control = Control { ar: Uuid([3; 16]), session_key: 2, command: Command::ParameterEnd };
        let mut bytes = [0xee; 32];
        let mut writer = Writer::new(&mut bytes);
        control.emit(BlockType::ParameterEndRequest, &mut writer).unwrap();
        assert_eq!(writer.len(), 32);
        assert_eq!(bytes[..6], [1, 0x10, 0, 28, 1, 0]);
        let Block { kind, body } = Blocks::new(&bytes).next().unwrap().unwrap();
        assert_eq!((kind, Control::parse(body)), (BlockType::ParameterEndRequest, Ok(control)));
        assert_eq!(Control::parse(&body[..25]), Err(Error::Truncated));
    }
}
