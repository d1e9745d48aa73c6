//! What holds of every flavour of the servers that speak Redis's protocol.

#![allow(unreachable_pub)] // Each flavour includes this file.

pub mod cluster;
pub mod one;
pub mod sentinel;
pub mod tls;

/// Defines the tests of one flavour.
#[macro_export]
macro_rules! tests_of {
    ($flavour:expr, $($module:ident: $($name:ident)*;)*) => {
        $($(
            #[tokio::test]
            async fn $name() {
                servers::$module::$name($flavour).await;
            }
        )*)*
    };
}
