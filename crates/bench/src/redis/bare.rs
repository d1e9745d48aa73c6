//! The least that a lease in Redis can be: scripts of three lines on the bare client.

use std::error::Error;

use redis::aio::MultiplexedConnection;
use redis::{Client, ProtocolVersion, Script};
use redis::{ConnectionInfo, IntoConnectionInfo};

const ACQUIRE: &str = "\
local set = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if set then return 1 end
return 0";

const RENEW: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1";

const TTL_MS: u32 = 30_000;

/// A connection of the same kind as the store's.
pub(super) struct Bare {
    connection: MultiplexedConnection,
    acquire: Script,
    renew: Script,
    release: Script,
}

impl Bare {
    pub(super) async fn connect(url: &str) -> Result<Self, Box<dyn Error>> {
        let info: ConnectionInfo = url.into_connection_info()?;
        let login = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(login))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let [acquire, renew, release] = [ACQUIRE, RENEW, RELEASE].map(Script::new);
        for script in [&acquire, &renew, &release] {
            script.prepare_invoke().load_async(&mut connection).await?;
        }
        Ok(Self { connection, acquire, renew, release })
    }

    pub(super) async fn acquire(&mut self, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
        let mut call = self.acquire.key(name);
        done(call.arg(value).arg(TTL_MS).invoke_async(&mut self.connection).await?)
    }

    pub(super) async fn renew(&mut self, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
        let mut call = self.renew.key(name);
        done(call.arg(value).arg(TTL_MS).invoke_async(&mut self.connection).await?)
    }

    pub(super) async fn release(&mut self, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
        let mut call = self.release.key(name);
        done(call.arg(value).invoke_async(&mut self.connection).await?)
    }
}

fn done(answer: u8) -> Result<(), Box<dyn Error>> {
    if answer == 1 { Ok(()) } else { Err("the bare script refused".into()) }
}
