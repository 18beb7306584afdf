//! Streams to ports that the host can reach.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

use crate::common::sshd::{free_port, options, sshd};
use converge_ssh::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Gives back what comes, until it ends.
async fn mirror() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.unwrap();
            });
        }
    });
    port
}

async fn there_and_back(session: &Session, port: u16) {
    let text = vec![7_u8; 1 << 20];
    let stream = session.tcp("127.0.0.1", port).await.unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    let mut heard = Vec::new();
    let (sent, got) = tokio::join!(
        async {
            write.write_all(&text).await?;
            write.shutdown().await
        },
        read.read_to_end(&mut heard)
    );
    sent.unwrap();
    got.unwrap();
    assert!(heard == text, "{} of {} bytes came back", heard.len(), text.len());
}

#[tokio::test]
async fn many_streams_pass_through_one_connection() {
    let port = mirror().await;
    let local = Session::connect(&SshEndpoint::local("here"), &crate::common::options()).await.unwrap();
    there_and_back(&local, port).await;
    let Some(host) = sshd("") else { return };
    let session = Session::connect(&host.target("ed25519"), &options(host.dir.path())).await.unwrap();
    // Side by side, more than sshd gives sessions.
    let mut streams = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let session = session.clone();
        streams.spawn(async move { there_and_back(&session, port).await });
    }
    while let Some(stream) = streams.join_next().await {
        stream.unwrap();
    }
    let nobody = session.tcp("127.0.0.1", free_port()).await.unwrap_err();
    assert!(nobody.to_string().contains("cannot connect there"), "{nobody}");
}

#[tokio::test]
async fn a_host_that_forbids_forwarding_says_so() {
    let port = mirror().await;
    let Some(host) = sshd("AllowTcpForwarding no") else { return };
    let session = Session::connect(&host.target("ed25519"), &options(host.dir.path())).await.unwrap();
    let error = session.tcp("127.0.0.1", port).await.unwrap_err();
    assert!(error.to_string().contains("AllowTcpForwarding"), "{error}");
}
