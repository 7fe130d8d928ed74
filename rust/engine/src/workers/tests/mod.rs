mod flow;
mod message;
mod samples;
mod wire;

use std::time::Duration;

/// Long enough that only a hang reaches it.
const AMPLE: Duration = Duration::from_secs(20);

/// Runs `test` on a thread of its own, where all that it begins takes turns.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(AMPLE, test).await.expect("the test hangs") });
}
