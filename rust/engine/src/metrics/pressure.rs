//! What gives way because there is too much to do.

use super::Exposition;
use crate::pressure::{Level, Part, Pressure};

pub(super) fn write(pressure: &Pressure, out: &mut Exposition) {
    let help = "1 for the state that a part is in: ok, pressed (nothing is begun that no client waits for) or shedding (a part of \
                the new work is refused).";
    let mut one_of = out.gauge("penstock_pressure_state", help);
    for part in Part::ALL {
        let level = pressure.state(part).level;
        for one in Level::ALL {
            one_of.sample(&[("part", part.name()), ("state", one.name())], level == one);
        }
    }
}
