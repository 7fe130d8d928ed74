use std::future::poll_fn;
use std::io::{IoSlice, Read};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What came before a reset, and how it ended, if a write has met the reset first.
async fn read_after_write_meets_reset() -> (Vec<u8>, io::Result<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (near, mut far) = (near.unwrap(), far.unwrap().0);
    far.write_all(b"the beginning").await.unwrap();
    near.readable().await.unwrap();
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    let connection = Connection::new(Transport::Plain(Socket::Tcp(near)));
    while !connection.has_hung_up() {
        tokio::task::yield_now().await;
    }
    let write = poll_fn(|context| connection.poll_write(context, &[IoSlice::new(b"more")])).await;
    assert_eq!(write.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let mut came = Vec::new();
    loop {
        let mut memory = [0; 64];
        match poll_fn(|context| connection.poll_read(context, &mut memory)).await {
            Ok(count) if count > 0 => came.extend(&memory[..count]),
            ended => return (came, ended),
        }
    }
}

/// The kernel tells of a reset once. A body that ends with its connection would look whole.
#[tokio::test]
async fn a_reset_that_a_write_has_met_is_no_orderly_end() {
    let (came, ended) = read_after_write_meets_reset().await;
    assert_eq!(came, b"the beginning");
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_orderly_end_is_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let connection = Connection::new(Transport::Plain(Socket::Tcp(near.unwrap())));
    let mut far = far.unwrap().0;
    poll_fn(|context| connection.poll_write(context, &[IoSlice::new(b"all")])).await.unwrap();
    far.read_exact(&mut [0; 3]).await.unwrap();
    drop(far);
    assert_eq!(poll_fn(|context| connection.poll_read(context, &mut [0; 64])).await.unwrap(), 0);
}

/// The other side makes room meanwhile, of which the runtime is told only when it turns to the kernel: so a write that is
/// refused before was no system call.
#[tokio::test]
async fn a_write_that_was_taken_in_part_is_not_tried_again_before_there_is_room() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let connection = Connection::new(Transport::Plain(Socket::Tcp(near.unwrap())));
    let mut far = far.unwrap().0.into_std().unwrap();
    let body = vec![7; 16 << 20];
    let (first, second) = body.split_at(1 << 20);
    let parts = [IoSlice::new(first), IoSlice::new(second)];
    let taken = poll_fn(|context| {
        let Poll::Ready(Ok(taken)) = connection.poll_write(context, &parts) else { panic!("there is room") };
        let mut rest = taken;
        while rest > 0 {
            let mut memory = vec![0; rest];
            match far.read(&mut memory) {
                Ok(count) => rest -= count,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(connection.poll_write(context, &parts).is_pending());
        Poll::Ready(taken)
    })
    .await;
    assert!(taken < body.len());
    assert!(poll_fn(|context| connection.poll_write(context, &parts)).await.unwrap() > 0);
}
