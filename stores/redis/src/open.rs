//! The store that a configuration asks for.

use std::sync::Arc;

use tenure_core::store::LeaseStore;

use crate::config::{Address, InvalidConfig, RedisConfig};
use crate::redlock::RedlockStore;
use crate::store::RedisStore;

/// Opens the store that a configuration asks for, whatever its address is; the servers are asked with the first call.
///
/// # Errors
/// If the configuration breaks a rule.
pub fn open(config: RedisConfig) -> Result<Arc<dyn LeaseStore>, InvalidConfig> {
    Ok(match config.address {
        Address::Redlock(_) => Arc::new(RedlockStore::new(config)?),
        _ => Arc::new(RedisStore::new(config)?),
    })
}
