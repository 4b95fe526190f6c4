//! SCL files of substations.

use std::path::Path;

use antedate_goose::scl::{parse, parse_streams};
use antedate_goose::values::{Board, show};
use antedate_wire::goose::Message;

/// An SCL file: each fault has a remedy, and one of a control block a line. A message of a control
/// block that can be used has the values of its data set.
pub fn scl(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let all = match parse(Path::new("fuzz.scd"), text) {
        Ok(all) => all,
        Err(fault) => return assert!(!fault.remedy.is_empty(), "{fault}"),
    };
    streams(text);
    for one in all {
        let control = match one.control {
            Ok(control) => control,
            Err(fault) => {
                assert!(fault.line.is_some() && !fault.remedy.is_empty(), "{fault}");
                continue;
            }
        };
        let Ok(board) = Board::new(&control) else { continue };
        board.with([0; 8], |values| {
            let message = control.message(values);
            let mut out = vec![0; message.buffer_len()];
            if message.emit(&mut out, &mut |_| ()).is_err() {
                return;
            }
            let read = Message::parse(&out).expect("what was written");
            let shown = show(&control, &read.all_data).expect("of the same types");
            // A data set may name a data attribute twice.
            assert!(shown.len() <= control.leaves().len());
        });
    }
}

/// A stream that can be used has samples of one length, which are shown by their names.
fn streams(text: &str) {
    let all = parse_streams(Path::new("fuzz.scd"), text).expect("an SCL file, as before");
    for one in all {
        let stream = match one.control {
            Ok(stream) => stream,
            Err(fault) => {
                assert!(fault.line.is_some() && !fault.remedy.is_empty(), "{fault}");
                continue;
            }
        };
        let mut sample = Vec::new();
        stream.signal([0; 8], |place| place as f64, &mut sample);
        assert_eq!(sample.len(), stream.sample_len());
        let shown = stream.show(&sample).expect("of its length");
        assert!(shown.len() <= stream.leaves().len());
        assert!(stream.rate.per_second(60) > 0 && stream.asdus > 0);
    }
}
