//! Transactions of a validator's own: what it has noticed or found.

use tg_chain::Chain;
use tg_types::{AccountId, Action, Amount, Lane, Reason, SecretKey, TxBody};

/// What a report costs: above the floor for the longest, one that names the most nodes.
const FEE: Amount = Amount::constant(1_000_000);

/// How many blocks a report may wait.
const EXPIRY_HEIGHTS: u64 = 50;

/// Why a report was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    #[error("chain has not begun, or has stopped")]
    NoChain,
    #[error("refused: {}", .0.code())]
    Refused(Reason),
}

/// Sends a report.
pub(crate) async fn send(
    chain: &Chain,
    key: &SecretKey,
    lane: u8,
    action: Action,
) -> Result<(), ReportError> {
    let sender = AccountId::from(key.public());
    let lane = Lane::new(lane).map_err(|_| ReportError::NoChain)?;
    let (header, _) = chain.tip().ok_or(ReportError::NoChain)?;
    let nonce = chain.next_nonce(&sender, lane).await.map_err(|_| ReportError::NoChain)?;
    let expires = header.height.plus(EXPIRY_HEIGHTS).map_err(|_| ReportError::NoChain)?;
    let body = TxBody { sender, lane, nonce, expires, fee: FEE, idempotency: None, action };
    let checked = chain.check(vec![body.sign(key, &chain.domain())]).pop();
    let tx = checked.ok_or(ReportError::NoChain)?.map_err(ReportError::Refused)?;
    let taken = chain.offer(vec![tx]).await.map_err(|_| ReportError::NoChain)?;
    taken.into_iter().find_map(Result::err).map_or(Ok(()), |why| Err(ReportError::Refused(why)))
}
