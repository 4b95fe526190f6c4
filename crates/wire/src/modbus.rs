//! Responses of Modbus/TCP (Modbus messaging on TCP/IP implementation guide 1.0b, section 3.1;
//! application protocol 1.1b3, sections 6.1 to 6.4).
//!
//! A server answers the same requests in each cycle, so it knows its next response except the
//! transaction identifier, which the client chooses, and the values.

use crate::bytes::{at_least, be16};
use crate::template::{Hole, What, Writer};
use crate::{Error, Result};

/// Octets before the function code.
pub const HEADER_LEN: usize = 7;

/// The most registers of a response.
pub const MAX_REGISTERS: usize = 125;

/// The kind of data in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// coils, eight an octet
    ReadCoils,
    /// discrete inputs, eight an octet
    ReadDiscreteInputs,
    /// holding registers, two octets each
    ReadHoldingRegisters,
    /// input registers, two octets each
    ReadInputRegisters,
}

impl Function {
    /// The function code.
    pub const fn code(self) -> u8 {
        match self {
            Self::ReadCoils => 1,
            Self::ReadDiscreteInputs => 2,
            Self::ReadHoldingRegisters => 3,
            Self::ReadInputRegisters => 4,
        }
    }

    fn of(code: u8) -> Result<Self> {
        Ok(match code {
            1 => Self::ReadCoils,
            2 => Self::ReadDiscreteInputs,
            3 => Self::ReadHoldingRegisters,
            4 => Self::ReadInputRegisters,
            _ => return Err(Error::Value),
        })
    }

    const fn has_registers(self) -> bool {
        matches!(self, Self::ReadHoldingRegisters | Self::ReadInputRegisters)
    }
}

/// A response to a read request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// the client's number for its request
    pub transaction: u16,
    /// the server behind a gateway
    pub unit: u8,
    /// the kind of data
    pub function: Function,
    /// the values: two octets a register, or eight bits an octet
    pub data: &'a [u8],
}

impl<'a> Response<'a> {
    /// Reads a response.
    ///
    /// # Errors
    /// [`Error::Value`] for exceptions and other functions, [`Error::Length`] for contradictory
    /// lengths.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        at_least(bytes, HEADER_LEN + 2)?;
        let (transaction, protocol, length) = (be16(bytes, 0), be16(bytes, 2), be16(bytes, 4));
        let (unit, function, count) = (bytes[6], Function::of(bytes[7])?, usize::from(bytes[8]));
        let data = &bytes[HEADER_LEN + 2..];
        if protocol != 0 {
            return Err(Error::Value);
        }
        let odd = function.has_registers() && count % 2 == 1;
        if usize::from(length) != 3 + count
            || data.len() != count
            || count == 0
            || count > 2 * MAX_REGISTERS
            || odd
        {
            return Err(Error::Length);
        }
        Ok(Self { transaction, unit, function, data })
    }

    /// Octets of the response.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + 2 + self.data.len()
    }

    /// Writes the response to the front of `buffer` and returns its length. Calls `mark` with the
    /// place of the transaction identifier and of each register, or of all bits.
    pub fn emit(&self, buffer: &mut [u8], mark: &mut dyn FnMut(Hole)) -> Result<usize> {
        let count = u8::try_from(self.data.len()).map_err(|_| Error::Length)?;
        let odd = self.function.has_registers() && count % 2 == 1;
        if count == 0 || usize::from(count) > 2 * MAX_REGISTERS || odd {
            return Err(Error::Length);
        }
        let mut out = Writer::new(buffer, mark);
        out.hole(What::Transaction, &self.transaction.to_be_bytes())?;
        out.put(&[0, 0])?;
        out.put(&(3 + u16::from(count)).to_be_bytes())?;
        out.put(&[self.unit, self.function.code(), count])?;
        if self.function.has_registers() {
            self.data.chunks(2).zip(0..).try_for_each(|(register, i)| out.hole(What::Value(i), register))?;
        } else {
            out.hole(What::Value(0), self.data)?;
        }
        Ok(out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::known;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn response(data: &[u8]) -> Response<'_> {
        Response { transaction: 0x1234, unit: 1, function: Function::ReadHoldingRegisters, data }
    }

    fn emit(response: &Response<'_>) -> (Vec<u8>, Vec<Hole>) {
        let (mut out, mut holes) = (vec![0; response.buffer_len()], vec![]);
        assert_eq!(response.emit(&mut out, &mut |hole| holes.push(hole)), Ok(out.len()));
        (out, holes)
    }

    #[test]
    fn transaction_and_registers_are_holes() {
        // The example of the application protocol, section 6.3: three registers.
        let (bytes, holes) = emit(&response(&[0x02, 0x2b, 0, 0, 0, 0x64]));
        assert_eq!(bytes, [0x12, 0x34, 0, 0, 0, 9, 1, 3, 6, 0x02, 0x2b, 0, 0, 0, 0x64]);
        assert_eq!(known(bytes.len(), holes.iter().map(|hole| hole.range.clone())), 7);
        assert_eq!((holes[0].what, holes[0].range.clone()), (What::Transaction, 0..2));
        assert_eq!((holes[3].what, holes[3].range.clone()), (What::Value(2), 13..15));
    }

    #[test]
    fn contradictory_lengths_are_refused() {
        let (good, _) = emit(&response(&[1, 2]));
        assert!(Response::parse(&good).is_ok());
        for (at, octet, error) in [
            (2, 1, Error::Value),
            (5, 6, Error::Length),
            (7, 0x83, Error::Value),
            (8, 1, Error::Length),
            (8, 4, Error::Length),
        ] {
            let mut bad = good.clone();
            bad[at] = octet;
            assert_eq!(Response::parse(&bad), Err(error), "{at}");
        }
        assert!((0..good.len()).all(|len| Response::parse(&good[..len]).is_err()));
        assert!(response(&[1]).emit(&mut [0; 32], &mut |_| ()).is_err());
        assert!(response(&[0; 252]).emit(&mut [0; 300], &mut |_| ()).is_err());
    }

    proptest! {
        #[test]
        fn any_response_round_trips(data in prop::collection::vec(any::<u8>(), 1..=125), transaction: u16, unit: u8, bits: bool) {
            let data = [&data[..], &data].concat();
            let function = if bits { Function::ReadCoils } else { Function::ReadInputRegisters };
            let response = Response { transaction, unit, function, data: &data };
            let (bytes, _) = emit(&response);
            prop_assert_eq!(Response::parse(&bytes), Ok(response));
        }

        #[test]
        fn parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = Response::parse(&bytes);
        }
    }
}
