use std::future::poll_fn;
use std::io::IoSlice;
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
