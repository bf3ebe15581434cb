//! A client that keeps the keys of its sealed data to itself: as long as this runs, it hands them
//! to the nodes that the chain shows as running or checking its jobs. It needs no files for that,
//! and any command of the account on any machine can do it: keys follow from the account's own.

use super::connect::Session;
use super::order::content_key;
use crate::{
    failure::{Failure, OrFail as _},
    files,
    printer::Printer,
};
use std::sync::Arc;
use tg_api::words::{short, short_job};
use tg_gateway::{Gateway, KeyDesk, desk};
use tg_types::SecretKey;
use tokio::task::JoinHandle;

/// Keys are being handed out.
pub(crate) struct Handing {
    gateway: Arc<Gateway>,
    staying: JoinHandle<()>,
}

impl Handing {
    /// Begins to hand out keys, saying so each time.
    pub(crate) fn start(session: &Session, printer: Printer) -> Result<Self, Failure> {
        let gateway = session.as_account()?;
        let owner = SecretKey::from_seed(*session.key.expose_seed());
        let genesis = gateway.domain().genesis;
        let desk = KeyDesk {
            gateway: Arc::clone(&gateway),
            key: Box::new(move |nonce| content_key(&owner, &genesis, nonce)),
            tell: Box::new(move |job, node| {
                let (job, node) = (short_job(&job), short(&node));
                printer.say(format_args!("  Key: node {node} was given the key of job {job}."));
            }),
            random: || files::random().ok(),
        };
        let inside = session.runtime.enter();
        let hint = "is the network still there? `tensorgrid status` tells";
        desk.open().or_fail("keys cannot be handed out", hint)?;
        let staying = tokio::spawn(desk::stay(Arc::clone(&gateway)));
        drop(inside);
        Ok(Self { gateway, staying })
    }

    /// Ends it.
    pub(crate) fn close(self, session: &Session) {
        self.staying.abort();
        if let Err(error) = session.runtime.block_on(self.gateway.peer().stop()) {
            tracing::debug!(%error, "the owner's peer did not stop well");
        }
    }
}
