//! memcached's text protocol from between: requests and replies, whole or in pieces.

mod connection;
mod replies;
mod requests;

pub(crate) use connection::Memcached;
