//! Lines fitted to the counts of `scenarios`, `gcm_holes` and `chacha_holes` in `firmware/`.
//! `antedate lab scenarios` reports a line that no longer fits.

use super::{Costs, Line, Opening, Single};

/// The costs of a cipher with a serial MAC.
const fn serial(
    seal: Line,
    prepare: Line,
    antedated: Line,
    online: Line,
    single: Single,
    open: Opening,
    step: f64,
) -> Costs {
    Costs { seal, prepare, online, antedated: Some(antedated), single: Some(single), open: Some(open), step }
}

/// The costs of a cipher with a polynomial MAC.
const fn sparse(seal: Line, prepare: Line, online: Line, open: Opening) -> Costs {
    // A unit of 64 bytes is a step.
    let step = prepare.unit;
    Costs { seal, prepare, online, antedated: None, single: None, open: Some(open), step }
}

/// The costs of opening, unprepared and with a prepared cipherstream.
const fn open(plain: Line, expected: Line) -> Opening {
    Opening { plain, expected }
}

pub(super) static MSP430_CCM: Costs = serial(
    Line::new(7769.0, 3926.0, 186.0, 0.0),
    Line::new(14_785.0, 2050.0, 0.0, 0.0),
    Line::new(6279.0, 2041.0, 173.0, 0.0),
    Line::new(563.0, 1942.0, -36.0, 0.0),
    Single { whole: 2130.0, partial: 2189.0, byte: 33.0 },
    open(Line::new(7838.0, 3931.0, 94.0, 0.0), Line::new(6207.0, 2034.0, 78.0, 0.0)),
    3200.0,
);

pub(super) static MSP430_ENGINE_CCM: Costs = serial(
    Line::new(15_173.0, 8526.0, 190.0, 0.0),
    Line::new(29_075.0, 4284.0, 0.0, 0.0),
    Line::new(10_976.0, 4341.0, 180.0, 0.0),
    Line::new(912.0, 4254.0, -37.0, 0.0),
    Single { whole: 4801.0, partial: 4848.0, byte: 33.0 },
    open(Line::new(15_211.0, 8527.0, 98.0, 0.0), Line::new(10_964.0, 4330.0, 84.0, 0.0)),
    6800.0,
);

pub(super) static MSP430_GCM: Costs = sparse(
    Line::new(171_926.0, 44_499.0, 29.0, 82_305.0),
    Line::new(328_446.0, 46_513.0, 15.0, 99_428.0),
    Line::new(10_003.0, 35_319.0, 1867.0, 0.0),
    open(Line::new(173_157.0, 44_158.0, 50.0, 83_075.0), Line::new(89_472.0, 44_169.0, 54.0, 128.0)),
);

pub(super) static MSP430_CHACHA: Costs = sparse(
    Line::new(29_690.0, 2897.0, 26.0, 21_963.0),
    Line::new(34_521.0, 2045.0, 1761.0, 26_007.0),
    Line::new(711.0, 2245.0, -36.0, 0.0),
    open(Line::new(29_880.0, 2886.0, 110.0, 22_009.0), Line::new(7320.0, 2883.0, 28.0, 593.0)),
);

pub(super) static M3_CCM: Costs = serial(
    Line::new(2478.0, 1161.0, 97.0, 0.0),
    Line::new(4434.0, 603.0, 0.0, 0.0),
    Line::new(1726.0, 598.0, 92.0, 0.0),
    Line::new(168.0, 562.0, 1.0, 0.0),
    Single { whole: 602.0, partial: 623.0, byte: 12.0 },
    open(Line::new(2330.0, 1167.0, 56.0, 0.0), Line::new(1801.0, 595.0, 50.0, 0.0)),
    1305.0,
);

pub(super) static M3_GCM: Costs = sparse(
    Line::new(11_890.0, 1766.0, 34.0, 8458.0),
    Line::new(17_796.0, 1953.0, 343.0, 8911.0),
    Line::new(203.0, 1734.0, 60.0, 0.0),
    open(Line::new(11_555.0, 1783.0, 110.0, 8023.0), Line::new(3604.0, 1771.0, 91.0, 194.0)),
);

pub(super) static M3_CHACHA: Costs = sparse(
    Line::new(2437.0, 229.0, -33.0, 2229.0),
    Line::new(3005.0, 200.0, 59.0, 2320.0),
    Line::new(150.0, 116.0, 200.0, 0.0),
    open(Line::new(2364.0, 219.0, 86.0, 2284.0), Line::new(530.0, 210.0, 36.0, 245.0)),
);
