//! Both ends of a client's connection, in a message.

use std::sync::Arc;

use crate::app::{Ends, TlsSession};
use crate::codec::{Put, Take};
use crate::error::Result;

pub(super) fn put_ends<'a, 'b>(put: &'a mut Put<'b>, ends: &Ends) -> &'a mut Put<'b> {
    let Ends { remote, local, tls } = ends;
    put.address(*remote).address(*local).option(tls.as_deref(), put_session)
}

pub(super) fn take_ends(take: &mut Take<'_>) -> Result<Ends> {
    Ok(Ends {
        remote: take.address()?,
        local: take.address()?,
        tls: take.option(take_session)?.map(Arc::new),
    })
}

fn put_session<'a, 'b>(put: &'a mut Put<'b>, session: &TlsSession) -> &'a mut Put<'b> {
    let TlsSession { version, suite, server_name, protocol, certificates, is_resumed } = session;
    put.u16(*version)
        .u16(*suite)
        .option(server_name.as_ref(), |put, name| put.bytes(name.as_bytes()))
        .bytes(protocol)
        .u32(u32::try_from(certificates.len()).unwrap_or(u32::MAX));
    for certificate in certificates {
        put.bytes(certificate);
    }
    put.flag(*is_resumed)
}

fn take_session(take: &mut Take<'_>) -> Result<TlsSession> {
    Ok(TlsSession {
        version: take.u16()?,
        suite: take.u16()?,
        server_name: take.option(Take::text)?.map(Into::into),
        protocol: take.bytes()?.into(),
        certificates: (0..take.count()?).map(|_| take.bytes().map(Into::into)).collect::<Result<_>>()?,
        is_resumed: take.flag()?,
    })
}
