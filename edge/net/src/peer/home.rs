//! Where a peer is found. Of the relays it was set up with it stays connected to one, its home;
//! relays it merely trusts it connects to when it calls somebody behind them.

use super::Peer;
use crate::dial::RouteError;
use crate::relay::pins::RELAYS_MAX;
use crate::relay::{RelayInfo, RelayUrl};
use iroh::Watcher as _;

impl Peer {
    /// The relay behind which others find this peer; `None` while it is connected to none. It may
    /// be another one later.
    #[must_use]
    pub fn home(&self) -> Option<RelayUrl> {
        if self.shared.stop.is_cancelled() {
            return None;
        }
        let relays = self.shared.endpoint.home_relay_status().get();
        let home = relays.iter().find(|relay| relay.is_connected())?;
        self.shared.pins.url(home.url())
    }

    /// Lets routes lead through a relay, or gives a known one a new certificate. The relay does
    /// not become this peer's home.
    ///
    /// # Errors
    /// If there are too many.
    pub fn trust_relay(&self, relay: &RelayInfo) -> Result<(), RouteError> {
        if self.shared.pins.insert(relay) {
            Ok(())
        } else {
            Err(RouteError::TooManyRelays { max: RELAYS_MAX })
        }
    }
}
