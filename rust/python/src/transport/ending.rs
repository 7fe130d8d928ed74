//! The end of a transport's exchange: the response is complete, the protocol closes it, or the client is lost.

use pyo3::exceptions::PyConnectionResetError;
use pyo3::intern;
use pyo3::prelude::*;

use super::{Core, Exchange, LIMITS};
use crate::lock;

impl Core {
    /// The protocol's response has ended. `free`: the protocol can take another request.
    pub(super) fn end_response(&self, py: Python<'_>, free: bool) {
        let leaves = {
            let mut state = lock(&self.state);
            let Some(exchange) = state.exchange.as_mut().filter(|exchange| !exchange.tunnel) else { return };
            if free && exchange.body.is_none() {
                true
            } else {
                // The protocol reads the rest of the body, or closes.
                exchange.far.done();
                exchange.lingers = true;
                exchange.ended = free;
                false
            }
        };
        if leaves {
            self.leave(py);
        }
    }

    /// Ends a complete exchange, and waits for the next.
    pub(super) fn leave(&self, py: Python<'_>) {
        let (exchange, resumed, ends) = {
            let mut state = lock(&self.state);
            if state.closing {
                return;
            }
            state.reading = true;
            (state.high, state.low) = LIMITS;
            state.fresh = 0;
            state.turn += 1;
            (state.exchange.take(), std::mem::take(&mut state.paused), state.ends.clone())
        };
        let Some(Exchange { far, ended, .. }) = exchange else { return };
        if ended {
            drop(far);
        } else {
            far.finish();
        }
        if resumed {
            // The engine sends the rest; it need not delay the next response.
            self.call(py, intern!(py, "resume_writing"));
        }
        if lock(&self.state).spent || self.shared.is_retired() {
            lock(&self.state).closing = true;
            return self.lose_soon(py);
        }
        let transport = lock(&self.transport).as_ref().map(|transport| transport.clone_ref(py));
        if let Some(transport) = transport.filter(|_| !lock(&self.state).closing) {
            self.shared.put_idle(ends, transport);
        }
    }

    /// Whether the protocol is ended by its lane, which has retired: it is idle, or its response is not sent yet.
    pub(super) fn retires(&self) -> bool {
        let state = lock(&self.state);
        let ends_by_itself = |exchange: &Exchange| exchange.tunnel || exchange.lingers;
        self.shared.is_retired() && !state.exchange.as_ref().is_some_and(ends_by_itself)
    }

    pub(super) fn close(&self, py: Python<'_>) {
        let idle = {
            let mut state = lock(&self.state);
            if std::mem::replace(&mut state.closing, true) || state.slot.is_none() {
                return;
            }
            match &mut state.exchange {
                // It is lost after everything is sent; nothing more is read.
                Some(exchange) => {
                    exchange.far.close();
                    exchange.body = None;
                    false
                }
                None => true,
            }
        };
        if idle {
            self.lose_soon(py);
        }
    }

    pub(crate) fn abort(&self, py: Python<'_>) {
        let exchange = {
            let mut state = lock(&self.state);
            state.closing = true;
            if state.slot.is_none() {
                return;
            }
            state.exchange.take()
        };
        if let Some(exchange) = &exchange {
            exchange.far.abort();
        }
        self.lose_soon(py);
    }

    /// As in asyncio: `connection_lost` is called at the loop's next turn. A request that comes before that is for another
    /// protocol.
    fn lose_soon(&self, py: Python<'_>) {
        let Some(transport) = lock(&self.transport).as_ref().map(|transport| transport.clone_ref(py)) else {
            return;
        };
        self.shared.forget(&transport);
        let scheduled = transport.bind(py).getattr(intern!(py, "lose")).and_then(|lose| {
            self.shared.port.get().event_loop(py).call_method1(intern!(py, "call_soon"), (lose,))
        });
        if scheduled.is_err() {
            // The loop is closed.
            self.lose(py, None);
        }
    }

    /// Calls `connection_lost`, once, and releases the protocol.
    pub(super) fn lose(&self, py: Python<'_>, reason: Option<PyErr>) {
        let (protocol, handler, slot, exchange) = {
            let mut state = lock(&self.state);
            state.closing = true;
            state.memory = None;
            (state.protocol.take(), state.handler.take(), state.slot.take(), state.exchange.take())
        };
        let transport = lock(&self.transport).take();
        if slot.is_none() {
            return;
        }
        // aiohttp goes on waiting for the rest of the body, for `lingering_time`, which a client that left does not send.
        let waiting = handler
            .filter(|_| exchange.as_ref().is_some_and(|exchange| exchange.lingers))
            .and_then(|handler| handler.bind(py).getattr_opt(intern!(py, "_task_handler")).ok().flatten())
            .filter(|task| !task.is_none());
        drop((slot, exchange, transport));
        self.settle(py, Err(PyConnectionResetError::new_err("the connection was lost")));
        if let Some(protocol) = protocol {
            let reason = reason.map(|error| error.into_value(py));
            if let Err(error) =
                protocol.object.bind(py).call_method1(intern!(py, "connection_lost"), (reason,))
            {
                self.shared.report(py, error, "protocol.connection_lost() failed");
            }
        }
        if let Some(Err(error)) = waiting.map(|task| task.call_method0(intern!(py, "cancel"))) {
            self.shared.report(py, error, "the task of a protocol could not be cancelled");
        }
    }
}
