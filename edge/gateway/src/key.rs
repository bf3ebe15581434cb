//! How a node that the chain has chosen for a job gets the key of its package: in shares from the
//! validators, or from the owner if it keeps the key to itself.

use crate::client::{Gateway, GatewayError, SLOW};
use crate::message::{Failure, Reply, Request};
use crate::package::{Lock, Package, PackageError, Whose, key_context, share_context};
use tg_net::PeerId;
use tg_privacy::{ContentKey, KeyCommitment, Share, ShareBook, WrapSecret, unwrap, unwrap_share};
use tg_types::{AccountId, JobId};

/// A job, with what its key is asked for by.
#[derive(Clone, Copy)]
pub struct KeyOrder<'a> {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub owner: AccountId,
    /// What its package begins with.
    pub package: &'a Package,
    /// The secret to whose public key the answers are wrapped.
    pub secret: &'a WrapSecret,
}

impl Gateway {
    /// Gets the key of a job's package.
    ///
    /// # Errors
    /// If the package is not the owner's, too few validators give their shares, or the owner does
    /// not give the key (the chain must have chosen us), or it is another key.
    pub async fn key(&self, order: &KeyOrder<'_>) -> Result<ContentKey, GatewayError> {
        // Another's package would be refused by all; its key is nobody's business here.
        let whose = Whose { genesis: self.domain().genesis, owner: order.owner };
        if order.package.whose != whose {
            return Err(PackageError::Whose.into());
        }
        match &order.package.lock {
            Lock::Escrowed { book, .. } => self.key_of_shares(order, book).await,
            Lock::Owned { key } => {
                let asked = self.key_of_owner(order, *key).await;
                asked.map_err(|error| GatewayError::NoKey(Box::new(error)))
            }
            Lock::Direct { .. } | Lock::Checkpoint { .. } => Err(PackageError::Kind.into()),
        }
    }

    /// Collects enough shares for the key of a job's package.
    async fn key_of_shares(
        &self,
        order: &KeyOrder<'_>,
        book: &ShareBook,
    ) -> Result<ContentKey, GatewayError> {
        let KeyOrder { job, package, secret, .. } = *order;
        let needed = book.threshold().needed();
        let context = share_context(&package.whose, book);
        let request = Request::Release { job, to: secret.public().clone() };
        let wanted = |seat, reply| {
            let Reply::Share { share } = reply else { return None };
            let is_its = |share: &Share| share.index().position() == seat;
            let share = unwrap_share(&share, secret, &context).ok().filter(is_its);
            share.filter(|share| book.check(share).is_ok())
        };
        let mut shares: Vec<Share> = self.ask_seats(&request, SLOW, wanted).await;
        shares.sort_by_key(|share| share.index().get());
        if shares.len() < needed {
            return Err(GatewayError::TooFew { found: shares.len(), needed });
        }
        // An owner may have given somebody a share that does not fit to the others: each is left
        // out once, as far as there are more than enough. Whoever then has the key sees that.
        let mut key = package.key_of(shares.get(..needed).unwrap_or_default());
        for _ in 1..shares.len() {
            if key.is_ok() {
                break;
            }
            shares.rotate_left(1);
            key = package.key_of(shares.get(..needed).unwrap_or_default());
        }
        Ok(key?)
    }

    /// Asks the owner: it is in the network as the peer that its account names.
    async fn key_of_owner(
        &self,
        order: &KeyOrder<'_>,
        expected: KeyCommitment,
    ) -> Result<ContentKey, GatewayError> {
        let KeyOrder { job, owner, package, secret } = *order;
        let peer = PeerId::new(*owner.as_bytes());
        let peer = peer.map_err(|_| GatewayError::Refused(Failure::Unavailable))?;
        let request = Request::Key { job, to: secret.public().clone() };
        let Reply::Key { key } = self.ask_peer(peer, &request).await? else {
            return Err(GatewayError::Unexpected);
        };
        let context = key_context(&package.whose, expected);
        let key = unwrap(&key, secret, &context).map_err(PackageError::Unwrap)?;
        // Whoever wraps by a program of its own can put any key into the right wrapping.
        if key.commitment() == expected { Ok(key) } else { Err(GatewayError::Unexpected) }
    }
}
