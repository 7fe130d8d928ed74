use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::net::Socket;
use crate::simulation::in_simulated_time;

const CONDITIONS: Conditions = Conditions { seed: 7, delay: 20, packet: 100, room: 1000, window: 500 };

fn pair(network: &Network) -> (Socket, Socket) {
    let (one, other) = network.pair();
    (Socket::Simulated(one), Socket::Simulated(other))
}

#[test]
fn bytes_come_in_order_and_then_the_end() {
    in_simulated_time(async {
        let network = Network::new(CONDITIONS);
        let (mut one, mut other) = pair(&network);
        let sent: Vec<u8> = (0..=250).cycle().take(5000).collect();
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            one.write_all(&sent).await.unwrap();
            one.shutdown().await.unwrap();
            let mut answer = Vec::new();
            one.read_to_end(&mut answer).await.unwrap();
            answer
        });
        let mut got = Vec::new();
        other.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, expected);
        // The other half is still open.
        other.write_all(b"got it").await.unwrap();
        drop(other);
        assert_eq!(writing.await.unwrap(), b"got it");
    });
}

#[test]
fn who_does_not_read_holds_up_who_writes() {
    in_simulated_time(async {
        let network = Network::new(CONDITIONS);
        let (one, mut other) = pair(&network);
        let mut written = 0;
        loop {
            match one.send_now(&[1; 100]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(one.is_full());
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        sleep(Duration::from_secs(10)).await;
        // A window's worth has gone over, and not more.
        assert_eq!(one.untaken().unwrap(), written - 500);
        other.read_exact(&mut vec![0; written]).await.unwrap();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(one.untaken().unwrap(), 0);
        assert!(!one.is_full());
    });
}

/// As Linux does: what came before is read, the error is told once, and then a read finds the end.
#[test]
fn a_reset_is_told_once() {
    in_simulated_time(async {
        for writes_first in [false, true] {
            let network = Network::new(CONDITIONS);
            let (mut one, mut other) = pair(&network);
            other.write_all(b"abc").await.unwrap();
            sleep(Duration::from_secs(1)).await;
            other.reset_on_close().unwrap();
            drop(other);
            sleep(Duration::from_secs(1)).await;
            assert!(one.has_hung_up());
            let error = if writes_first {
                let error = one.send_now(b"x").unwrap_err();
                assert_eq!(one.read(&mut [0; 10]).await.unwrap(), 3);
                error
            } else {
                assert_eq!(one.read(&mut [0; 10]).await.unwrap(), 3);
                one.read(&mut [0; 10]).await.unwrap_err()
            };
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert_eq!(one.read(&mut [0; 10]).await.unwrap(), 0);
            assert_eq!(one.send_now(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
    });
}

#[test]
fn what_was_not_read_makes_a_close_a_reset() {
    in_simulated_time(async {
        let network = Network::new(CONDITIONS);
        let (mut one, other) = pair(&network);
        one.write_all(b"abc").await.unwrap();
        sleep(Duration::from_secs(1)).await;
        drop(other);
        assert_eq!(one.read(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn doors_are_open_closed_or_silent() {
    in_simulated_time(async {
        let network = Network::new(CONDITIONS);
        let address = "192.0.2.1:80".parse().unwrap();
        let refused = connect(address).await.expect("a network").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        network.set_door(address, Door::Open);
        let end = connect(address).await.expect("a network").unwrap();
        assert_eq!(network.come(address).len(), 1);
        assert_eq!(end.peek().unwrap_or_default(), 0);
        network.set_door(address, Door::Silent);
        assert!(tokio::time::timeout(Duration::from_secs(60), connect(address)).await.is_err());
    });
}
