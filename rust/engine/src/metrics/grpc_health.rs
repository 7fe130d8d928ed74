//! Readiness for clients of gRPC (grpc/grpc, `doc/health-checking.md`): `grpc.health.v1.Health`.

use super::Status;
use crate::edge::{Asked, Exhibit, Showing, Shown};

/// How the paths of its methods begin.
pub const GRPC_HEALTH: &str = "/grpc.health.v1.Health/";

/// A message of one field: its head of five bytes, and the status (`HealthCheckResponse`).
const SERVING: &str = "\0\0\0\0\x02\x08\x01";
const NOT_SERVING: &str = "\0\0\0\0\x02\x08\x02";
/// `UNIMPLEMENTED`, after which a client takes the server to be well.
const UNIMPLEMENTED: &str = "12";

/// Says whether an engine is ready. All names of services are those of the engine.
#[derive(Debug)]
pub struct GrpcHealth(pub Status);

impl Exhibit for GrpcHealth {
    fn show<'a>(&'a self, asked: Asked<'a>) -> Showing<'a> {
        Box::pin(async move {
            let shown = Shown { content_type: "application/grpc", ..Shown::text(200, String::new()) };
            if asked.method != "POST" || asked.path().strip_prefix(GRPC_HEALTH) != Some("Check") {
                return Ok(Shown { field: Some(("grpc-status", UNIMPLEMENTED.to_owned())), ..shown });
            }
            let is_ready = self.0.readiness().await.iter().all(|check| check.is_good);
            let text = if is_ready { SERVING } else { NOT_SERVING };
            Ok(Shown { text: text.to_owned(), trailers: &[("grpc-status", "0")], ..shown })
        })
    }

    fn takes_bodies(&self) -> bool {
        true
    }
}
