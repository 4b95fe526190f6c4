use std::vec::Vec;

use super::super::Blocks;
use super::*;
use proptest::prelude::*;

const AR: ArRequest<'_> = ArRequest {
    kind: ArType::IoController,
    ar: Uuid([9; 16]),
    session_key: 3,
    controller: Address([2, 0, 0, 0, 0, 1]),
    object: Uuid::object(1, 2, 3),
    properties: ArRequest::PROPERTIES,
    timeout_factor: 100,
    name: b"plc",
};
const INPUT_CR: Iocr = Iocr {
    kind: IocrType::Input,
    reference: 1,
    data_len: 40,
    frame_id: FrameId(0x8002),
    send_clock: 32,
    reduction: 4,
    data_hold: 3,
};
const OBJECTS: [IoObject; 3] = [
    IoObject { slot: 1, subslot: 1, offset: 0, consumer: false },
    IoObject { slot: 0, subslot: 1, offset: 22, consumer: false },
    IoObject { slot: 1, subslot: 1, offset: 21, consumer: true },
];
const SUBMODULE: Submodule =
    Submodule { api: 0, slot: 1, module: 0x10, subslot: 1, submodule: 0x11, input: 20, output: 20 };

#[test]
fn connect_request_round_trips() {
    let alarm = AlarmCr { timeout_factor: 1, retries: 3, reference: 7, max_len: 200 };
    let dap = Submodule { slot: 0, module: 1, subslot: 1, submodule: 1, input: 0, output: 0, api: 0 };
    let output_only = Submodule { subslot: 2, input: 0, ..SUBMODULE };
    let mut bytes = [0; 400];
    let mut writer = Writer::new(&mut bytes);
    AR.emit(&mut writer).unwrap();
    INPUT_CR.emit(&OBJECTS, &mut writer).unwrap();
    alarm.emit(&mut writer).unwrap();
    ExpectedSubmodules::emit(&[dap], &mut writer).unwrap();
    ExpectedSubmodules::emit(&[SUBMODULE, output_only], &mut writer).unwrap();
    let len = writer.len();
    let blocks: Vec<_> = Blocks::new(&bytes[..len]).map(Result::unwrap).collect();
    assert_eq!(ArRequest::parse(blocks[0].body), Ok(AR));
    let iocr = IocrRequest::parse(blocks[1].body).unwrap();
    let mut objects = Vec::new();
    iocr.objects(|object| objects.push(object));
    assert_eq!((iocr.iocr, &objects[..]), (INPUT_CR, &OBJECTS[..]));
    assert_eq!(iocr.iocr.update_units(), 128);
    assert_eq!(AlarmCr::parse(blocks[2].body), Ok(alarm));
    let mut submodules = Vec::new();
    for block in &blocks[3..] {
        ExpectedSubmodules::parse(block.body).unwrap().submodules(|found| submodules.push(found));
    }
    assert_eq!(submodules, [dap, SUBMODULE, output_only]);
}

#[test]
fn connect_response_round_trips() {
    let mut bytes = [0; 100];
    let mut writer = Writer::new(&mut bytes);
    AR.accept(Address([2; 6]), &mut writer).unwrap();
    INPUT_CR.accept(FrameId(0x8009), &mut writer).unwrap();
    AlarmCr { timeout_factor: 1, retries: 3, reference: 7, max_len: 200 }.accept(5, &mut writer).unwrap();
    let len = writer.len();
    assert_eq!(len, 34 + 12 + 12);
    let blocks: Vec<_> = Blocks::new(&bytes[..len]).map(Result::unwrap).collect();
    let response = IocrResponse { kind: IocrType::Input, frame_id: FrameId(0x8009) };
    assert_eq!(IocrResponse::parse(blocks[1].body), Ok(response));
    assert_eq!(AlarmCr::accepted(blocks[2].body), Ok(5));
}

#[test]
fn counts_past_the_end_are_refused() {
    let mut bytes = [0; 200];
    let mut writer = Writer::new(&mut bytes);
    INPUT_CR.emit(&OBJECTS, &mut writer).unwrap();
    let len = writer.len();
    assert!(IocrRequest::parse(&bytes[6..len]).is_ok());
    assert_eq!(IocrRequest::parse(&bytes[6..len - 1]), Err(Error::Truncated));
    let mut writer = Writer::new(&mut bytes);
    ExpectedSubmodules::emit(&[SUBMODULE], &mut writer).unwrap();
    let len = writer.len();
    assert!(ExpectedSubmodules::parse(&bytes[6..len]).is_ok());
    assert_eq!(ExpectedSubmodules::parse(&bytes[6..len - 1]), Err(Error::Truncated));
    bytes[7] = 2;
    assert_eq!(ExpectedSubmodules::parse(&bytes[6..len]), Err(Error::Truncated), "two slots");
}

proptest! {
    #[test]
    fn parsers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = (ArRequest::parse(&bytes), AlarmCr::parse(&bytes), AlarmCr::accepted(&bytes));
        let _ = (IocrRequest::parse(&bytes), IocrResponse::parse(&bytes), ExpectedSubmodules::parse(&bytes));
        let _ = Blocks::new(&bytes).count();
    }
}
