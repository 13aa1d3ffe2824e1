//! The way from a client to its server, or to the servers of a cluster.

use std::cell::Cell;

use kvmark_driver::Call;

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::parcel::Parcel;
use crate::prepared::Prepared;

/// What an operation is carried out on.
pub(crate) struct Line<'a> {
    way: Way<'a>,
    redirections: Cell<u32>,
}

#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    Server(&'a Connection),
    /// The connections of this place.
    Cluster(&'a Cluster, usize),
}

impl<'a> Line<'a> {
    pub(crate) fn new(way: Way<'a>) -> Self {
        Self { way, redirections: Cell::new(0) }
    }

    /// Redirections that were followed so far.
    pub(crate) fn redirections(&self) -> u32 {
        self.redirections.get()
    }

    /// Sends the commands that `encode` writes, this many, whose first argument is their key, and
    /// hands each reply to `take`. The first failure is the exchange's.
    #[inline]
    pub(crate) async fn exchange(
        &self,
        commands: u32,
        encode: impl FnOnce(&mut Vec<u8>),
        take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.way {
            Way::Server(connection) => connection.exchange(commands, encode, take).await,
            Way::Cluster(cluster, place) => {
                let fill = |parcel: &mut Parcel| parcel.fill(encode);
                cluster.exchange(place, &self.redirections, fill, take).await
            }
        }
    }

    /// Sends a statement's commands and hands each reply to `take`.
    #[inline]
    pub(crate) async fn carry_out(
        &self,
        prepared: &Prepared,
        call: &Call<'_>,
        take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.way {
            Way::Server(connection) => {
                let count = call.commands.len() * prepared.texts();
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                connection.exchange(count, |output| prepared.put_all(output, call), take).await
            }
            Way::Cluster(cluster, place) => {
                let fill = |parcel: &mut Parcel| parcel.fill_with(prepared, call);
                cluster.exchange(place, &self.redirections, fill, take).await
            }
        }
    }
}
