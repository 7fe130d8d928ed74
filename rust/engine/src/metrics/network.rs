//! What the network does to responses, by class.

use super::exposition::{Exposition, Family};
use super::value::Value;
use crate::edge::{NetworkSums, RATES};

pub(super) fn write(classes: &[NetworkSums], out: &mut Exposition) {
    let help = "Looks at connections of clients, of which the other metrics of penstock_tcp tell.";
    each(out.counter("penstock_tcp_looks_total", help), classes, |seen| seen.looks);
    let help = "A round trip to the client, smoothed by the kernel.";
    let mut rtt = out.histogram("penstock_tcp_rtt_seconds", help);
    for seen in classes {
        rtt.sample(&[("class", seen.class.name())], &seen.rtt);
    }
    let help = "Bytes a second that clients have taken lately, where there was enough for them to tell.";
    let mut rates = out.histogram("penstock_tcp_delivery_rate_bytes", help);
    for seen in classes {
        rates.sample_whole(&[("class", seen.class.name())], &RATES, &seen.rates.0, seen.rates.1);
    }
    let help = "Bytes that TCP has sent to clients between two looks at a connection.";
    each(out.counter("penstock_tcp_sent_bytes_total", help), classes, |seen| seen.sent);
    let help = "Those of penstock_tcp_sent_bytes_total that were sent again.";
    each(out.counter("penstock_tcp_retransmitted_bytes_total", help), classes, |seen| seen.retransmitted);
    let help = "Time in which something was under way to clients between two looks at a connection.";
    each(out.counter("penstock_tcp_busy_seconds_total", help), classes, |seen| seen.busy);
    let help = "The part of penstock_tcp_busy_seconds_total in which the client had no room for more.";
    each(out.counter("penstock_tcp_receiver_limited_seconds_total", help), classes, |seen| {
        seen.receiver_limited
    });
    let help =
        "The part of penstock_tcp_busy_seconds_total in which the kernel's buffer was too small for more.";
    each(out.counter("penstock_tcp_buffer_limited_seconds_total", help), classes, |seen| seen.buffer_limited);
}

fn each<T: Into<Value>>(mut family: Family<'_>, classes: &[NetworkSums], value: impl Fn(&NetworkSums) -> T) {
    for seen in classes {
        family.sample(&[("class", seen.class.name())], value(seen));
    }
}
